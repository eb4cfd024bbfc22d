"""One command repairs a failing test in a git checkout: a real agent and workspace, and a scripted model over HTTP."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.workspace.coder import ScriptedCoder, begin_checkout, coding_fleet, git

pytestmark = pytest.mark.process

POLICY = """\
version: 1
rules:
  - {tool: edit_file, path: "test_*", decision: decline}
  - {tool: edit_file, path: "*.py", decision: approve}
  - {tool: bash, command: "python3 -m unittest", decision: approve}
"""
TEST: dict[str, Any] = {"command": "python3 -m unittest"}
EDIT = {"path": "shop.py", "old_text": "price + count", "new_text": "price * count"}
CHEAT = {"path": "test_shop.py", "old_text": "14700", "new_text": "4903"}
DIFF = """\
-    return price + count
+    return price * count
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a git checkout whose test fails."""
    folder = tmp_path / "checkout"
    begin_checkout(folder)
    assert _unittest(folder) == 1
    return folder


def _unittest(folder: Path) -> int:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=240).returncode


def _repair(root: Path, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    (root / "policy.yaml").write_text(POLICY)
    command = [sys.executable, "-m", "fleetwright_cli", "run", "-f", str(root / "fleet"), "coder", "--timeout", "120"]
    prompt = "The test of this shop fails. Repair the code, and run the test."
    return subprocess.run(
        [*command, "--approve", str(root / "policy.yaml"), prompt],
        capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, env=dict(environ),
    )  # fmt: skip


def test_run_repairs_a_failing_test_of_a_checkout(tmp_path: Path, checkout: Path) -> None:
    model = ScriptedCoder([("bash", TEST), ("read_file", {"path": "shop.py"}), ("edit_file", EDIT), ("bash", TEST)])
    with coding_fleet(tmp_path, checkout, model) as environ:
        ended = _repair(tmp_path, environ)
    assert ended.returncode == 0, ended.stderr
    failed, _, _, repaired = model.results
    assert ("AssertionError" in failed, "OK" in repaired) == (True, True), model.results
    assert _unittest(checkout) == 0
    changed = [line for line in git(checkout, "diff").splitlines(keepends=True) if line[:1] in "+-"]
    assert "".join(changed[2:]) == DIFF
    assert git(checkout, "status", "--porcelain") == " M shop.py\n"


def test_run_changes_no_test_against_its_policy(tmp_path: Path, checkout: Path) -> None:
    model = ScriptedCoder([("read_file", {"path": "test_shop.py"}), ("edit_file", CHEAT)])
    with coding_fleet(tmp_path, checkout, model) as environ:
        ended = _repair(tmp_path, environ)
    assert ended.returncode == 0, ended.stderr
    assert "The approval policy of this run declines this call." in model.results[-1]
    assert git(checkout, "status", "--porcelain") == ""
