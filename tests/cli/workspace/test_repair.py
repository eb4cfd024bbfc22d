"""One command repairs a failing test in a git checkout: a real agent and workspace, and a scripted model over HTTP."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli.coder import ScriptedCoder, begin_checkout, coding_fleet, git
from tests.support.cli.dev_run import run_fleetwright
from tests.support.machine import ceiling

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


@dataclass(frozen=True)
class Shop:
    """A git checkout whose test fails, and an agent that works in it as the model says."""

    root: Path
    checkout: Path
    model: ScriptedCoder
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def running_shop(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    root = tmp_path_factory.mktemp("shop")
    begin_checkout(root / "checkout")
    model = ScriptedCoder()
    with coding_fleet(root, root / "checkout", model) as environment:
        yield Shop(root, root / "checkout", model, environment)


@pytest.fixture
def shop(running_shop: Shop) -> Shop:
    """Return the shop as it began."""
    git(running_shop.checkout, "checkout", "-q", ".")
    # A compiled module is taken for the restored one if both have one size and were written in one second.
    git(running_shop.checkout, "clean", "-qfdx")
    assert _unittest(running_shop.checkout) == 1
    return running_shop


def _unittest(folder: Path) -> int:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=ceiling()).returncode


def _repair(shop: Shop) -> "subprocess.CompletedProcess[str]":
    (shop.root / "policy.yaml").write_text(POLICY)
    prompt = "The test of this shop fails. Repair the code, and run the test."
    place = ("-f", str(shop.root / "fleet"), "coder", "--timeout", "120")
    words = ("run", *place, "--approve", str(shop.root / "policy.yaml"), prompt)
    return run_fleetwright(*words, environment=shop.environment)


def test_run_repairs_a_failing_test_of_a_checkout(shop: Shop) -> None:
    shop.model.calls = [("bash", TEST), ("read_file", {"path": "shop.py"}), ("edit_file", EDIT), ("bash", TEST)]
    ended = _repair(shop)
    assert ended.returncode == 0, ended.stderr
    failed, _, _, repaired = shop.model.results
    assert ("AssertionError" in failed, "OK" in repaired) == (True, True), shop.model.results
    assert _unittest(shop.checkout) == 0
    changed = [line for line in git(shop.checkout, "diff").splitlines(keepends=True) if line[:1] in "+-"]
    assert "".join(changed[2:]) == DIFF
    assert git(shop.checkout, "status", "--porcelain") == " M shop.py\n"


def test_run_changes_no_test_against_its_policy(shop: Shop) -> None:
    shop.model.calls = [("read_file", {"path": "test_shop.py"}), ("edit_file", CHEAT)]
    ended = _repair(shop)
    assert ended.returncode == 0, ended.stderr
    assert "The approval policy of this run declines this call." in shop.model.results[-1]
    assert git(shop.checkout, "status", "--porcelain") == ""
