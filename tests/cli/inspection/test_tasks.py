"""`fleetwright tasks`: the table on plain tasks, and the command against a local fleet and through kubectl."""

import json
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet, environment
from tests.support.cli.kubectl import with_kubectl

from fleetwright_a2a.extensions import COST
from fleetwright_cli.inspection.tasks import summarize_task, task_rows

REFUND = "Refund order A-1002."


def said(text: str, role: str = "ROLE_USER") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        pytest.param(
            {
                "id": "0123456789",
                "contextId": "abcdefghij",
                "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-03-01T11:59:00.123Z"},
                "artifacts": [{"metadata": {COST: {"costUsd": 0.0021}}}],
                "history": [said("Repair\nit"), said("Really?", "ROLE_AGENT"), said("approved")],
            },
            ("01234567", "completed", "client:a", "abcdefgh", "2026-03-01T11:59:00", "0.0021 USD", "Repair it", "-"),
            id="the first message and not the approval",
        ),
        pytest.param(
            {
                "id": "t",
                "status": {
                    "state": "TASK_STATE_FAILED",
                    "message": {**said("The model refuses\x1b[2J", "ROLE_AGENT"), "metadata": {COST: {"costUsd": 0.5}}},
                },
                "history": [said("x" * 60)],
            },
            ("t", "failed", "client:a", "-", "-", "0.5 USD", f"{'x' * 47}…", "The model refuses\ufffd[2J"),
            id="the reason of a failure",
        ),
        pytest.param(
            {
                "id": "t",
                "status": {"state": "TASK_STATE_WORKING", "message": said("reading", "ROLE_AGENT")},
                "artifacts": [{"metadata": {COST: {"costUsd": 0.5}}}],
            },
            ("t", "working", "client:a", "-", "-", "-", "-", "-"),
            id="a running task",
        ),
        pytest.param({}, ("-", "-", "client:a", "-", "-", "-", "-", "-"), id="nothing"),
    ],
)
def test_task_has_one_row(task: Mapping[str, Any], wanted: tuple[str, ...]) -> None:
    assert task_rows([summarize_task(task, owner="client:a")], whole=False)[1:] == [wanted]


def test_wide_rows_have_whole_ids_and_texts() -> None:
    task = {"id": "0123456789", "history": [said("x" * 60)]}
    row = task_rows([summarize_task(task, owner="client:a")], whole=True)[1]
    assert (row[0], row[6]) == ("0123456789", "x" * 60)


def list_tasks(*words: str, environ: dict[str, str]) -> "CompletedProcess[str]":
    return run_fleetwright("tasks", *words, environment=environ)


@pytest.fixture
def guest(fleet: Fleet, tmp_path: Path) -> list[str]:
    """The options that select the agent with the token of a client that is not an administrator."""
    path = tmp_path / "guest-token"
    path.write_text(json.loads((fleet.state / "tokens.json").read_text())["client.desk.guest"])
    return ["--url", fleet.address["url"], "--token-file", str(path)]


def test_administrator_sees_the_tasks_of_all_callers(fleet: Fleet, guest: list[str]) -> None:
    environ = environment(fleet.home)
    asked = run_fleetwright("run", *guest, "--output-format", "json", REFUND, environment=environ)
    task = json.loads(asked.stdout)["taskId"]
    assert run_fleetwright("run", *guest, "--task", task, "yes", environment=environ).returncode == 0
    failed = fleet.run("Hello [[fail:401]]")
    assert failed.returncode == 1, failed.stdout
    place = ("--state", str(fleet.state), "desk")
    listed = list_tasks(*place, environ=environ)
    assert (listed.returncode, listed.stderr) == (0, "")
    rows = [line for line in listed.stdout.splitlines() if line.startswith(task[:8])]
    assert [("client:guest" in row, "completed" in row, REFUND in row) for row in rows] == [(True, True, True)]
    (newest,) = json.loads(list_tasks(*place, "--limit", "1", "-o", "json", environ=environ).stdout)
    assert (newest["owner"], newest["state"], "401" in newest["reason"]) == ("client:default", "failed", True)
    of_guest = json.loads(list_tasks(*place, "--owner", "client:guest", "-o", "json", environ=environ).stdout)
    assert {each["owner"] for each in of_guest} == {"client:guest"}


def test_chosen_client_of_a_local_fleet_sees_its_own_tasks(fleet: Fleet) -> None:
    environ, place = environment(fleet.home), ("--state", str(fleet.state), "desk")
    asked = run_fleetwright("run", *place, "--client", "guest", "Where is order A-1003?", environment=environ)
    assert asked.returncode == 0, asked.stderr
    listed = json.loads(list_tasks(*place, "--client", "guest", "-o", "json", environ=environ).stdout)
    assert {task["owner"] for task in listed} == {"client:guest"}
    assert any("A-1003" in task["request"] for task in listed)


def test_other_clients_see_their_own_tasks_and_are_told_so(fleet: Fleet, guest: list[str]) -> None:
    environ = environment(fleet.home)
    fleet.run("Look up order A-1002.")
    listed = list_tasks(*guest, environ=environ)
    assert listed.returncode == 0
    assert "Look up order" not in listed.stdout
    assert listed.stderr.startswith("Only the tasks of one client: ")
    assert "spec.auth.administrators" in listed.stderr
    refused = list_tasks(*guest, "--owner", "client:default", environ=environ)
    assert (refused.returncode, "spec.auth.administrators" in refused.stderr) == (4, True)


@pytest.mark.parametrize(
    ("administrators", "words", "limitation"),
    [
        pytest.param(["default"], [], "", id="administrator"),
        pytest.param([], [], "agent desk has no administrator", id="no administrator"),
        pytest.param([], ["--client", "default"], "", id="a client"),
    ],
)
def test_tasks_are_read_through_kubectl(fleet: Fleet, kubectl: Path, administrators, words, limitation) -> None:
    fleet.run("Look up order A-1002.")
    agent = {"metadata": {"name": "desk", "namespace": "team"}, "spec": {"auth": {"administrators": administrators}}}
    (kubectl / "agents.fleetwright.dev.json").write_text(json.dumps(agent))
    listed = list_tasks("desk", "-n", "team", *words, environ=with_kubectl(fleet, kubectl))
    assert listed.returncode == 0, listed.stderr
    assert "Look up order A-1002." in listed.stdout
    assert limitation in listed.stderr
    assert bool(listed.stderr) == bool(limitation)


@pytest.mark.parametrize(
    "forbidden",
    [
        pytest.param("agents.fleetwright.dev-desk-forbidden", id="the Agent"),
        pytest.param("secret-desk-client-boss-forbidden", id="the Secret of the administrator"),
    ],
)
def test_tasks_without_the_rights_of_an_administrator_are_those_of_a_client(
    fleet: Fleet, kubectl: Path, forbidden: str
) -> None:
    fleet.run("Look up order A-1002.")
    agent = {"metadata": {"name": "desk", "namespace": "team"}, "spec": {"auth": {"administrators": ["boss"]}}}
    (kubectl / "agents.fleetwright.dev.json").write_text(json.dumps(agent))
    (kubectl / forbidden).touch()
    environ = with_kubectl(fleet, kubectl)
    listed = list_tasks("desk", "-n", "team", environ=environ)
    assert (listed.returncode, "Look up order A-1002." in listed.stdout) == (0, True), listed.stderr
    assert listed.stderr.startswith("Only the tasks of one client: Error from server (Forbidden)")
    refused = list_tasks("desk", "-n", "team", "--owner", "client:default", environ=environ)
    assert (refused.returncode, "(Forbidden)" in refused.stderr) == (4, True)


def test_tasks_without_the_right_to_read_a_token_name_the_remedy(fleet: Fleet, kubectl: Path) -> None:
    (kubectl / "secret.json").unlink()
    listed = list_tasks("desk", "-n", "team", environ=with_kubectl(fleet, kubectl))
    assert (listed.returncode, "name the client with --client" in listed.stderr) == (4, True), listed.stderr


def test_tasks_refuse_a_client_beside_an_owner(fleet: Fleet) -> None:
    listed = list_tasks("desk", "--client", "a", "--owner", "client:a", environ=environment(fleet.home))
    assert (listed.returncode, "--client and --owner exclude each other" in listed.stderr) == (2, True)
