"""`fleetwright approvals`, `approve` and `deny` against a real API server, with the kubeconfig of a person."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.kubeconfig import write as write_kubeconfig
from tests.controlplane.conftest import Refusal
from tests.support.controlplane.approvals import account_username
from tests.support.controlplane.gateway import token_of

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def program(control_plane: Any, admin: Any, space: Any, tmp_path: Path) -> Run:
    """Return a function that runs the program as a ServiceAccount, which stands for a person."""

    def run(account: str, *words: str, stdin: str = "", program: str = "") -> "subprocess.CompletedProcess[str]":
        token = token_of(admin, space.name, account)
        path = tmp_path / account
        write_kubeconfig(path, name=account, server=control_plane.server, ca=control_plane.ca, token=token)
        command = [program] if program else [sys.executable, "-m", "fleetwright_cli"]
        environment = {"KUBECONFIG": str(path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        whole = [*command, *words, "--namespace", space.name]
        return subprocess.run(whole, env=environment, input=stdin, capture_output=True, text=True, check=False)

    return run


def test_person_lists_and_approves_with_other_arguments(approval, program, space, admin):
    listed = program("alice", "approvals")
    head = ["NAME", "AGENT", "TOOL", "TITLE", "REQUESTED-BY", "PHASE", "DECIDED-BY", "EXPIRES", "AGE"]
    assert listed.stdout.splitlines()[0].split() == head
    assert "orders__refund" in listed.stdout
    (found,) = json.loads(program("alice", "approvals", "-o", "json").stdout)
    assert found["spec"]["request"]["tool"] == "orders__refund"
    done = program("alice", "approve", "clerk-1", "--reason", "half", "--arguments", "-", stdin='{"order": 8}')
    assert done.returncode == 0, done.stderr
    assert f"clerk-1: Approved by {account_username(space, 'alice')}" in done.stdout
    spec = admin.request("GET", approval)["spec"]
    assert (spec["decision"], spec["reason"], spec["arguments"]) == ("Approved", "half", {"order": 8})
    shown = program("alice", "approvals", "show", "clerk-1").stdout
    assert f"Approved by {account_username(space, 'alice')}" in shown
    assert shown.count('"order": 7') == shown.count('"order": 8') == 1


def test_nulls_in_edited_arguments_reach_the_object(approval, program, space, admin):
    arguments = {"order": 8, "limit": None, "deep": {"until": None, "list": [None, {"at": None}]}}
    words = ("approve", "clerk-1", "--reason", "half", "--arguments", "-")
    done = program("alice", *words, stdin=json.dumps(arguments))
    assert done.returncode == 0, done.stderr
    found = admin.request("GET", approval)
    assert found["spec"]["arguments"] == arguments
    # The same decision changes nothing. The API server refuses the JSON Patch of another decision.
    assert program("alice", *words, stdin=json.dumps(arguments)).returncode == 0
    assert admin.request("GET", approval)["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    fields = {"decision": "Denied", "decidedBy": account_username(space, "bob"), "reason": "no"}
    for changes in (fields, {"arguments": {"order": 8}}):
        patch = [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in changes.items()]
        with pytest.raises(Refusal, match=f"{account_username(space, 'alice')} has already decided Approved"):
            admin.request("PATCH", approval, patch, "application/json-patch+json")


def test_second_person_learns_who_decided_and_when(approval, program, space):
    plugin = str(Path(sys.executable).parent / "kubectl-fleetwright")
    assert program("alice", "deny", "clerk-1", "--reason", "no", program=plugin).returncode == 0
    again = program("bob", "approve", "clerk-1")
    assert again.returncode == 1
    assert f"decided already: Denied by {account_username(space, 'alice')} at 20" in again.stderr


def test_refusals_are_explained_with_a_remedy(approval, program, space):
    assert "Another person has to decide" in program("clerk", "approve", "clerk-1").stderr
    assert "--namespace names another namespace" in program("alice", "approve", "absent").stderr
    assert "cannot patch" in program("viewer", "approve", "clerk-1").stderr
    everywhere = program("alice", "approvals", "-A")
    assert everywhere.returncode == 1
    assert "cannot list" in everywhere.stderr


def test_watch_prints_a_decision_of_another_person(approval, program, space, control_plane, admin, tmp_path):
    token = token_of(admin, space.name, "alice")
    path = write_kubeconfig(
        tmp_path / "watch", name="alice", server=control_plane.server, ca=control_plane.ca, token=token
    )
    command = [sys.executable, "-u", "-m", "fleetwright_cli", "approvals", "--watch", "--namespace", space.name]
    environment = {"KUBECONFIG": str(path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("NAME")
        assert "Pending" in watching.stdout.readline()
        assert program("bob", "deny", "clerk-1", "--reason", "no").returncode == 0
        line = watching.stdout.readline()
        watching.kill()
    assert account_username(space, "bob") in line
