"""`fleetwright team` against a real API server, with a kubeconfig as a user has it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.kubeconfig import write as write_kubeconfig

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def team(control_plane: ControlPlane, tmp_path: Path) -> Run:
    """Return a function that runs `fleetwright team` in a namespace."""
    plane = control_plane
    path = write_kubeconfig(tmp_path / "kubeconfig", name="admin", server=plane.server, ca=plane.ca, token=plane.token)

    def run(space: Any, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "fleetwright_cli", "team", *words, "--namespace", space.name]
        environment = {"KUBECONFIG": str(path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def lead(operator: Any, space: Any) -> str:
    """A lead with two children, one of which has a child."""
    space.agent("lead", skills=[{"name": "notes"}])
    space.agent("one", fleet={"parent": {"name": "lead"}})
    space.agent("below", fleet={"parent": {"name": "one"}}, model={
        "name": "m", "baseURL": "http://192.0.2.1/v1", "apiKeySecretRef": {"name": "provider", "key": "key"},
    })  # fmt: skip
    space.agent("two", fleet={"parent": {"name": "lead"}})
    space.agent("apart")
    key = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "provider"}, "stringData": {"key": "x"}}
    files = {"SKILL.md": "---\nname: notes\ndescription: Takes notes\n---\nTake notes.\n"}
    space.apply(
        key,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes-files"}, "data": files},
        {
            "apiVersion": "fleetwright.dev/v1alpha1",
            "kind": "Skill",
            "metadata": {"name": "notes"},
            "spec": {"source": {"configMap": {"name": "notes-files"}}},
        },
    )
    for name in ("lead", "one", "below", "two", "apart"):
        space.eventually(lambda name=name: space.find("Agent", name).get("status"), f"{name} has a status")
    return "lead"


def test_team_tree_shows_parents_above_children(team: Run, space: Any, lead: str) -> None:
    lines = team(space, "tree").stdout.splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines[1:2]] == ["apart"]
    assert [line[: line.index("e") + 1] for line in lines[2:3]] == ["le"]
    found = json.loads(team(space, "tree", lead, "-o", "json").stdout)
    assert [(each["name"], each["depth"]) for each in found] == [("lead", 0), ("one", 1), ("below", 2), ("two", 1)]
    assert {each["ready"] for each in found} <= {"True", "False", "Unknown"}


def test_team_suspend_stops_descendants_and_resume_starts_them(team: Run, space: Any, lead: str) -> None:
    done = team(space, "suspend", lead, "--wait", "150")
    assert done.returncode == 0, done.stderr + done.stdout
    for name in ("lead", "one", "below", "two"):
        assert space.get("Deployment", name)["spec"]["replicas"] == 0, name
    assert space.get("Deployment", "apart")["spec"]["replicas"] == 1
    assert team(space, "resume", lead).returncode == 0
    for name in ("lead", "one", "two"):
        space.eventually(
            lambda name=name: space.get("Deployment", name)["spec"]["replicas"] == 1, f"{name} is started again"
        )


def test_exported_team_can_be_imported_in_another_namespace(
    team: Run, space: Any, other_space: Any, lead: str, tmp_path: Path
) -> None:
    text = team(space, "export", lead).stdout
    assert text.splitlines()[1] == "# Secret: provider"
    assert "namespace:" not in text
    assert [each["kind"] for each in yaml.safe_load_all(text)] == ["ConfigMap", "Skill", *["Agent"] * 4]
    file = tmp_path / "team.yaml"
    file.write_text(text)
    done = team(other_space, "import", "-f", str(file))
    assert done.returncode == 0, done.stderr
    assert {name for name in ("lead", "one", "two", "below") if other_space.find("Agent", name)} == {
        "lead", "one", "two", "below",
    }  # fmt: skip
    again = json.loads(team(other_space, "tree", "lead", "-o", "json").stdout)
    assert [each["name"] for each in again] == ["lead", "one", "below", "two"]


def test_import_names_the_owner_of_a_conflicting_field(team: Run, space: Any) -> None:
    space.agent("desk", description="Sells lamps")
    change = {
        "apiVersion": "fleetwright.dev/v1alpha1", "kind": "Agent", "metadata": {"name": "desk"},
        "spec": {"description": "Sells chairs"},
    }  # fmt: skip
    refused = team(space, "import", "-f", "-", stdin=yaml.safe_dump(change))
    assert refused.returncode == 1
    assert "spec.description belongs to the field manager test. Change" in refused.stderr
    done = team(space, "import", "-f", "-", "--force-conflicts", stdin=yaml.safe_dump(change))
    assert (done.returncode, space.get("Agent", "desk")["spec"]["description"]) == (0, "Sells chairs"), done.stderr


def test_team_expand_keeps_the_lead_and_collapse_undoes_it(team: Run, space: Any, operator: Any) -> None:
    """The API server checks every write first. Without a gateway, the lead keeps its sub-agents."""
    reader = {"name": "reader", "description": "Reads", "instructions": "You read.", "timeout": "90s"}
    space.agent("lead", subAgents=[{**reader, "maxModelCalls": 9}, {**reader, "name": "1st"}])
    done = team(space, "expand", "lead")
    assert "start with a letter" in done.stderr
    space.agent("lead", subAgents=[{**reader, "maxModelCalls": 9}])
    printed = team(space, "expand", "lead", "--dry-run", "-o", "yaml")
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(printed.stdout)] == ["lead", "reader"]
    assert space.find("Agent", "reader") is None
    done = team(space, "expand", "lead")
    assert done.returncode == 1
    assert "has no gateway" in done.stderr
    assert "reader created; lead was not changed" in done.stderr
    found = json.loads(team(space, "tree", "lead", "-o", "json").stdout)
    assert [(each["name"], each["depth"]) for each in found] == [("lead", 0), ("reader", 1)]
    done = team(space, "collapse", "lead", "--no-handoff", "--yes")
    assert "does not show whether tasks run" in done.stderr
    done = team(space, "collapse", "lead", "--no-handoff", "--yes", "--force")
    assert done.returncode == 0, done.stderr
    assert space.get("Agent", "lead")["spec"]["subAgents"] == [{**reader, "maxModelCalls": 9}]
    space.eventually(lambda: space.find("Agent", "reader") is None, "the child is deleted")


@pytest.mark.parametrize(
    ("words", "stdin", "wanted"),
    [
        pytest.param(["tree", "nobody"], "", "Agent nobody in namespace", id="an unknown lead"),
        pytest.param(["suspend", "nobody"], "", "not found; --namespace names another namespace", id="suspend it"),
        pytest.param(["export", "nobody"], "", "not found", id="export it"),
        pytest.param(["expand", "nobody"], "", "not found", id="expand it"),
        pytest.param(["collapse", "nobody"], "", "not found", id="collapse it"),
        pytest.param(["import", "-f", "-"], "kind: Secret", "kind must be one of ConfigMap", id="another kind"),
        pytest.param(["import", "-f", "-"], "a: [", "not YAML", id="no YAML"),
        pytest.param(
            ["import", "-f", "-"], "{kind: Agent, metadata: {name: a, namespace: b}}", "metadata.namespace is b",
            id="another namespace",
        ),
    ],
)  # fmt: skip
def test_team_command_refuses_bad_input(team: Run, space: Any, words: list[str], stdin: str, wanted: str) -> None:
    done = team(space, *words, stdin=stdin)
    assert done.returncode == 1
    assert wanted in done.stderr
    assert "Traceback" not in done.stderr
