"""The runner on a full volume: files keep their contents, and there is room again after a smaller write."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.workspace import LocalWorkspace

BYTES = 1024 * 1024
LARGE = "x" * 700_000 + "\nend\n"


class SmallVolume(LocalWorkspace):
    """A workspace whose root is a file system of one MiB. Only the runner sees it."""

    def runner_prefix(self) -> list[str]:
        return ["bwrap", "--dev-bind", "/", "/", "--size", str(BYTES), "--tmpfs", str(self.root), "--die-with-parent"]


@pytest.fixture
def small(process_ring: None, tmp_path: Path) -> Iterator[LocalWorkspace]:
    words = ["bwrap", "--dev-bind", "/", "/", "--size", str(BYTES), "--tmpfs", str(tmp_path), "true"]
    if shutil.which("bwrap") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("needs bubblewrap 0.7 or newer, and user namespaces")
    running = SmallVolume(tmp_path)
    yield running
    running.stop()


def code(answer: dict[str, Any]) -> str:
    return answer.get("error", {}).get("code", "")


def test_full_volume_damages_no_file(small: LocalWorkspace) -> None:
    assert not code(small.call("write", path="kept.txt", content=LARGE, turn="t"))
    assert code(small.call("write", path="new.txt", content=LARGE, turn="t")) == "quota"
    read = small.call("read", path="kept.txt")
    state = {"digest": read["digest"], "mtime_ns": read["mtime_ns"]}
    full = small.call("edit", path="kept.txt", old="end", new="END", expected=state, turn="t")
    assert (code(full), full["status"]) == ("quota", 507)
    assert "delete files" in full["error"]["message"]
    assert small.call("read", path="kept.txt")["digest"] == read["digest"]
    assert not code(small.call("write", path="kept.txt", content="small\n", expected=state, turn="t"))
    assert [entry["name"] for entry in small.call("list")["entries"]] == ["kept.txt"], "no part of a file is left"
    assert not code(small.call("write", path="new.txt", content=LARGE, turn="t"))
    assert small.call("rewind", turns=["t"])["restored"] == ["kept.txt", "new.txt"]
