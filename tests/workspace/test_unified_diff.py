"""Diffs: what `patch` makes of them is the new file, and long ones are cut."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from fleetwright_workspace.text.document import Replacement
from fleetwright_workspace.text.unified_diff import replacement_diff, whole_diff


@pytest.mark.parametrize(
    ("text", "replacements", "wanted"),
    [
        pytest.param(
            "a\nb\nc\nd\ne\n",
            [(4, 5, "C")],
            "@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n",
            id="two lines of context",
        ),
        pytest.param("a\nb", [(2, 3, "c")], "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
                     "\\ No newline at end of file\n", id="no final newline"),
        pytest.param("a\nb\n", [(2, 4, "")], "@@ -1,2 +1 @@\n a\n-b\n", id="deleted line"),
        pytest.param("a\n", [(2, 2, "b\n")], "@@ -1 +1,2 @@\n a\n+b\n", id="added line"),
        pytest.param("a b a\n", [(0, 1, "x"), (4, 5, "y")], "@@ -1 +1 @@\n-a b a\n+x b y\n", id="two on one line"),
        pytest.param(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            [(0, 1, "x\ny"), (16, 17, "z")],
            "@@ -1,3 +1,4 @@\n-1\n+x\n+y\n 2\n 3\n@@ -7,3 +8,3 @@\n 7\n 8\n-9\n+z\n",
            id="two hunks",
        ),
    ],
)  # fmt: skip
def test_replacement_diff(text: str, replacements: list[tuple[int, int, str]], wanted: str) -> None:
    diff = replacement_diff("f", text, [Replacement(*replacement) for replacement in replacements])
    assert diff.text == f"--- a/f\n+++ b/f\n{wanted}"
    assert diff.truncated is False


def test_equal_contents_have_no_diff() -> None:
    assert whole_diff("f", "a\n", "a\n").text == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\n" * 100, "b\n" * 100, id="many lines"),
        pytest.param("x" * 5000 + "\n", "y" * 5000 + "\n", id="long line"),
        pytest.param("", "b\n" * 60, id="new lines"),
    ],
)
def test_long_diff_is_cut(before: str, after: str) -> None:
    diff = whole_diff("f", before, after)
    assert diff.truncated is True
    changed = [line for line in diff.text.splitlines()[2:] if line[0] in "+-"]
    assert len(changed) <= 50
    assert all(len(line) < 1100 for line in changed)
    assert any(line.startswith("+") for line in changed)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program patch")
def test_patch_accepts_random_diffs(tmp_path: Path) -> None:
    generator = random.Random(7)  # a fixed sample
    for _ in range(60):
        lines = [generator.choice("abcd") for _ in range(generator.randrange(1, 30))]
        text = "\n".join(lines) + generator.choice(["", "\n"])
        cuts = sorted(generator.sample(range(len(text) + 1), min(4, len(text) + 1)))
        replacements = [
            Replacement(start, end, generator.choice(["", "x", "y\nz", "\n", "w\n"]))
            for start, end in zip(cuts[::2], cuts[1::2], strict=False)
        ]
        after, position = "", 0
        for start, end, new in replacements:
            after += text[position:start] + new
            position = end
        after += text[position:]
        diff = replacement_diff("f", text, replacements)
        file = tmp_path / "f"
        file.write_text(text)
        if diff.text:
            done = subprocess.run(
                ["patch", "--quiet", "--fuzz=0", "-p1"], cwd=tmp_path, input=diff.text, text=True, capture_output=True
            )
            assert done.returncode == 0, (text, replacements, diff.text, done.stdout)
        assert (file.read_text() if file.exists() else "") == after, (text, replacements, diff.text)
