"""`fleetwright eval` against a local fleet."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.terminal.fleet import Fleet, environment

CASES = "cases: [{name: looks up, say: Look up order A-1002., expect: {contains: [desk lamp], tools: [%s]}}]"


def _eval(fleet: Fleet, file: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        fleet.words("eval", "--state", str(fleet.state), str(file), "desk", *words),
        capture_output=True, text=True, timeout=240, env=environment(fleet.home),
    )  # fmt: skip


def test_eval_runs_the_cases_with_each_model(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES % "orders__look_up_order")
    ended = _eval(fleet, tmp_path / "cases.yaml", "--model", "gpt-4o", "--model", "tiny", "-o", "json")
    assert ended.returncode == 1, ended.stderr
    assert [(each["model"], each["runs"]) for each in json.loads(ended.stdout)] == [
        ("gpt-4o", [[]]),
        ("tiny", [["the agent used gpt-4o; its a2a.callerChoices must name Model"]]),
    ]


@pytest.mark.parametrize(
    ("cases", "wanted"),
    [
        pytest.param("cases: [{name: a, say: b, expect: {files: {c: [d]}}}]", "with --workspace", id="no workspace"),
        pytest.param("cases: []", "cases: needs a list", id="no case"),
    ],
)
def test_eval_names_what_the_file_lacks(fleet: Fleet, tmp_path: Path, cases, wanted) -> None:
    (tmp_path / "cases.yaml").write_text(cases)
    ended = _eval(fleet, tmp_path / "cases.yaml")
    assert (ended.returncode, wanted in ended.stderr) == (2, True), ended.stderr
