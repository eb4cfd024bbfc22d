"""`fleetwright eval` against a local fleet."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet, environment

CASES = "cases: [{name: looks up, say: Look up order A-1002., expect: {contains: [desk lamp], tools: [%s]}}]"


def _eval(fleet: Fleet, file: Path, *words: str) -> CompletedProcess[str]:
    return run_fleetwright(
        "eval", "--state", str(fleet.state), str(file), "desk", *words, environment=environment(fleet.home)
    )


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


def test_eval_reads_only_files_of_the_workspace(fleet: Fleet, tmp_path: Path) -> None:
    """A command of the workspace may have made links and pipes."""
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src/app.py").write_text("one\n")
    (workspace / "inside").symlink_to("src/app.py")
    (tmp_path / "secret").write_text("one\n")
    (workspace / "outside").symlink_to(tmp_path / "secret")
    (workspace / "folder").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")
    files = ", ".join(f"{path}: [one]" for path in ("src/app.py", "inside", "outside", "folder/secret", "pipe", "src"))
    (tmp_path / "cases.yaml").write_text(
        f"cases: [{{name: a, say: Look up order A-1002., expect: {{files: {{{files}}}}}}}]"
    )
    ended = _eval(fleet, tmp_path / "cases.yaml", "--workspace", str(workspace), "-o", "json")
    (result,) = json.loads(ended.stdout)
    missing = [f"the workspace has no file {path}" for path in ("outside", "folder/secret", "pipe", "src")]
    assert result["runs"] == [missing]
