"""The edit corpus: every case of `edits/` is either edited as a careful person wants, or refused with the right code.

A case has a file, `old`, `new` and perhaps a `count`, and either the wanted file or the code of the refusal.
`differs_at` names the lines that the refusal has to show.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.digest import digest
from fleetwright_workspace.files.file_writer import EditRequest, ExpectedState, FileWriter
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.undo_store import UndoStore

FOLDER = Path(__file__).parent / "edits"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.toml"))
    for case in tomllib.loads(path.read_text())["case"]
]


def test_corpus_has_enough_distinct_cases() -> None:
    cases = {(c["file"], c["old"], c["new"], c.get("count", 1)) for (c,) in (param.values for param in CASES)}
    assert len(cases) == len(CASES) >= 200


def _expanded(case: dict[str, Any], text: str) -> str:
    for name, (unit, count) in case.get("expand", {}).items():
        text = text.replace(f"{{{name}}}", unit * count)
    return text


@pytest.mark.parametrize("case", CASES)
def test_edit_is_right_or_refused(case: dict[str, Any], tmp_path: Path) -> None:
    before = _expanded(case, case["file"]).encode()
    file = tmp_path / "root/file.txt"
    file.parent.mkdir()
    file.write_bytes(before)
    root = WorkspaceRoot(str(file.parent))
    request = EditRequest(
        old=_expanded(case, case["old"]),
        new=_expanded(case, case["new"]),
        places=case.get("count", 1),
        expected=ExpectedState(digest(before), 0),
        result_digest="",
    )
    writer = FileWriter(root, UndoStore(str(tmp_path / "undo")))
    location = root.locate("file.txt")
    if "refused" in case:
        with pytest.raises(CallError) as refusal:
            writer.edit(location, request, turn="t", dry_run=False)
        assert refusal.value.code == case["refused"]
        assert file.read_bytes() == before
        shown = refusal.value.details.get("candidates", [])
        assert len(shown) <= 6
        if "differs_at" in case:
            assert [candidate["differs_at"] for candidate in shown][: len(case["differs_at"])] == case["differs_at"]
    else:
        answer = writer.edit(location, request, turn="t", dry_run=False)
        wanted = _expanded(case, case["want"]).encode()
        assert file.read_bytes() == wanted
        assert answer["digest"] == digest(wanted)
        assert answer["applied"] is True
    root.close()
