"""The commands `status`, `why` and `agents` against a real API server: an operator ends, or leaves a namespace."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.kubeconfig import write as write_kubeconfig
from tests.support.controlplane.administrator import OPERATOR_ACCOUNT

INSTALLATION = f"{SYSTEM}/{OPERATOR_ACCOUNT}"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fleetwright(control_plane: ControlPlane, tmp_path: Path) -> Run:
    plane = control_plane
    path = write_kubeconfig(tmp_path / "kubeconfig", name="admin", server=plane.server, ca=plane.ca, token=plane.token)

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {"KUBECONFIG": str(path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "fleetwright_cli", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def deployment(admin: Any, rendered_chart: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The operator's Deployment of the chart, without pods: the operator is a process of the test."""
    (found,) = (
        body for body in rendered_chart if body["kind"] == "Deployment" and body["metadata"]["name"] == OPERATOR_ACCOUNT
    )
    found = deepcopy(found)
    found["spec"]["replicas"] = 0
    admin.apply(found)
    yield found
    admin.delete("Deployment", SYSTEM, OPERATOR_ACCOUNT)


def test_status_why_and_agents_tell_whether_an_operator_works(fleetwright, deployment, operator, space):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    place = ("--namespace", space.name)
    assert fleetwright("why", "poet", *place).returncode == 0
    assert fleetwright("agents", *place).returncode == 0

    listed = json.loads(fleetwright("status", "-o", "json").stdout)
    (found,) = (each for each in listed["installations"] if each["name"] == INSTALLATION)
    version = deployment["metadata"]["labels"]["app.kubernetes.io/version"]
    assert (found["version"], found["pods"], found["problem"]) == (version, "0/0", "")
    assert found["leader"]
    assert found["objects"] >= 1

    operator.stop()
    try:
        space.agent("poet", instructions="Write better.")
        told = fleetwright("why", "poet", *place)
        assert told.returncode == 1
        stopped = f"no operator works: {INSTALLATION}, which manages the agent, has had no leader for"
        assert stopped in told.stdout
        told = fleetwright("agents", *place)
        assert told.returncode == 1
        assert told.stdout.splitlines()[1].startswith("poet ")
        assert told.stderr.startswith(f"poet: {stopped}")
        told = fleetwright("status")
        assert told.returncode == 1
        assert f"{INSTALLATION} has had no leader for" in told.stdout
    finally:
        operator.start()  # The tests of other modules need it too.


def test_status_why_and_agents_notice_a_namespace_that_the_operator_has_left(
    fleetwright, deployment, operator, space, admin
):
    """Only the Deployment changes. The operator of the test goes on, and still renews its Lease."""
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (served,) = (each for each in container["env"] if each["name"] == "FLEETWRIGHT_NAMESPACES")
    served["value"] = "elsewhere"
    admin.apply(deployment)
    left = f"{INSTALLATION}, which manages it, no longer serves namespace {space.name}, only elsewhere"
    for words in (("why", "poet"), ("agents",)):
        told = fleetwright(*words, "--namespace", space.name)
        assert told.returncode == 1
        assert left in told.stdout + told.stderr
    told = fleetwright("status")
    assert told.returncode == 1
    assert f"{INSTALLATION} manages objects in " in told.stdout
    assert "which it does not serve: nothing works on them" in told.stdout


def test_status_names_the_rights_that_a_user_lacks(fleetwright, control_plane, space, tmp_path):
    path = f"/api/v1/namespaces/{space.name}/serviceaccounts/default/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = space.admin.request("POST", path, asked)["status"]["token"]
    plane = control_plane
    write_kubeconfig(tmp_path / "kubeconfig", name="admin", server=plane.server, ca=plane.ca, token=token)
    told = fleetwright("status")
    assert told.returncode == 1
    assert "Deployment objects" in told.stderr
    assert "cannot list resource" in told.stderr
