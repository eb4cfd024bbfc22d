"""`fleetwright skills promote --apply` against a real API server, with the kubeconfig of a person."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.kubeconfig import write as write_kubeconfig
from tests.controlplane.conftest import Admin, Space
from tests.support.cli.fleet import environment
from tests.support.cli.learning_agent import LearningAgent, build_learned_skill
from tests.support.controlplane.gateway import token_of
from tests.support.http_server import serve_in_thread
from tests.support.machine import ceiling

Promote = Callable[..., "subprocess.CompletedProcess[str]"]
RIGHTS = {"author": ["get", "create", "patch"], "reader": ["get"], "stranger": []}
SKILL = "book-table"


@pytest.fixture
def desk(process_ring: None) -> Iterator[LearningAgent]:
    agent = LearningAgent([build_learned_skill(SKILL)])
    with serve_in_thread(agent.app()) as port:
        agent.port = port
        yield agent


@pytest.fixture
def promote(control_plane: Any, admin: Admin, space: Space, desk: LearningAgent, tmp_path: Path) -> Promote:
    """Return a function that runs the command as a ServiceAccount, which stands for a person."""
    for name, verbs in RIGHTS.items():
        space.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        rule = {"apiGroups": ["fleetwright.dev"], "resources": ["skills"], "verbs": verbs}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name, "namespace": space.name}}
        if verbs:
            admin.apply({**head, "kind": "Role", "rules": [rule]})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            subject = {"kind": "ServiceAccount", "name": name, "namespace": space.name}
            admin.apply({**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]})
    (tmp_path / "token").write_text("secret")

    def run(account: str, *words: str) -> "subprocess.CompletedProcess[str]":
        token = token_of(admin, space.name, account)
        path = tmp_path / account
        write_kubeconfig(path, name=account, server=control_plane.server, ca=control_plane.ca, token=token)
        address = ["--url", f"http://127.0.0.1:{desk.port}", "--token-file", str(tmp_path / "token")]
        return subprocess.run(
            [
                *(sys.executable, "-m", "fleetwright_cli", "skills", "promote", *address),
                *("desk", SKILL, "--apply", "--namespace", space.name, *words),
            ],
            env=environment(tmp_path, KUBECONFIG=str(path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ceiling(),
        )

    return run


def other_manager(space: Space, source: dict[str, Any], name: str = SKILL) -> None:
    """Apply a Skill as another program does, which then owns its fields."""
    body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Skill", "metadata": {"name": name}}
    space.admin.apply(
        {**body, "metadata": {"name": name, "namespace": space.name}, "spec": {"source": source}}, manager="argocd"
    )


def test_promotion_creates_and_updates_a_skill(promote, space, desk):
    created = promote("author")
    assert (created.returncode, created.stdout) == (0, f"Skill {SKILL} is applied in namespace {space.name}.\n"), (
        created
    )
    first = space.get("Skill", SKILL)
    assert [each["manager"] for each in first["metadata"]["managedFields"] if "subresource" not in each] == [
        "fleetwright-cli"
    ]
    assert promote("author").returncode == 0
    again = space.get("Skill", SKILL)
    assert (again["metadata"]["generation"], again["spec"]) == (1, first["spec"])

    desk.skills = [build_learned_skill(SKILL, description="Books a table for two")]
    refused = promote("author")
    assert (refused.returncode, "--yes replaces it" in refused.stderr) == (1, True), refused.stderr
    assert promote("author", "--yes").returncode == 0
    assert "for two" in space.get("Skill", SKILL)["spec"]["source"]["inline"]["files"]["SKILL.md"]


def test_skill_of_another_manager_is_replaced_on_request_only(promote, space):
    document = f"---\nname: {SKILL}\ndescription: Another.\n---\nText.\n"
    other_manager(space, {"inline": {"files": {"SKILL.md": document}}})
    refused = promote("author", "--yes")
    assert refused.returncode == 1
    assert "spec.source.inline.files.SKILL.md belongs to the field manager argocd" in refused.stderr, refused.stderr
    assert "--force-conflicts" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert space.get("Skill", SKILL)["spec"]["source"]["inline"]["files"]["SKILL.md"] == document
    forced = promote("author", "--yes", "--force-conflicts")
    assert forced.returncode == 0, forced.stderr
    assert "Do: book-table" in space.get("Skill", SKILL)["spec"]["source"]["inline"]["files"]["SKILL.md"]


def test_skill_with_another_source_is_not_replaced(promote, space):
    other_manager(space, {"git": {"url": "https://git.example.com/skills.git", "commit": "1" * 40}})
    refused = promote("author", "--yes", "--force-conflicts")
    assert refused.returncode == 1
    assert f"Skill {SKILL} has its files from git" in refused.stderr, refused.stderr
    assert "--as" in refused.stderr


def test_missing_rights_are_named_with_the_remedy(promote, space):
    for account, verb in (("stranger", "get"), ("reader", "patch")):
        refused = promote(account)
        assert refused.returncode == 1
        assert f'cannot {verb} resource "skills"' in refused.stderr, refused.stderr
        assert "to get, create and patch skills" in refused.stderr
    assert space.find("Skill", SKILL) is None
