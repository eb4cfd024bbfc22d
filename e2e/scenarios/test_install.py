"""A second release for one namespace: installed, restricted by a network policy, upgraded, and uninstalled before its
agents.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.cluster import commands, deploy
from e2e.cluster.deploy import RELEASE, SYSTEM, Helm
from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.ports import next_name
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider
from e2e.scenarios.conftest import QUICKSTART
from e2e.scenarios.fleet import Fleet, agent, children
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import wait_until

SECOND = "second"


@dataclass(frozen=True)
class Release:
    """A second release in a separate namespace. It uses the CRDs of the first release."""

    helm: Helm
    namespace: str

    def install(self, **values: Any) -> None:
        """Install or upgrade the release. Values that were set before stay set."""
        sets = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
        where = (f"--namespace={self.namespace}", "--reuse-values", "--wait", f"--timeout={ceiling():.0f}s")
        self.helm.run("upgrade", "--install", SECOND, CHECKOUT / "charts" / "fleetwright", *where, *sets)

    def reaches(self, host: str, port: int) -> bool:
        """Return True if a TCP connection from the operator's pod opens."""
        seconds = 2 * machine_factor()
        connect = f"import socket; socket.create_connection(({host!r}, {port}), timeout={seconds})"
        command = (f"--namespace={self.namespace}", f"deployment/{SECOND}-operator", "--", "python", "-c", connect)
        return self.helm.kubectl.attempt("exec", *command).returncode == 0


@pytest.fixture
def resting(operator: Kubectl) -> Iterator[Kubectl]:
    """The cluster with its own operator scaled down, because two operators must not serve the same namespaces."""
    deployment = (f"deployment/{RELEASE}-operator", f"--namespace={SYSTEM}")
    pods = ("pods", f"--namespace={SYSTEM}", "--selector=app.kubernetes.io/name=fleetwright-operator")
    operator.run("scale", *deployment, "--replicas=0")
    try:
        wait_until(lambda: not operator.get(*pods)["items"], "the operator is gone", pause=0.5)
        yield operator
    finally:
        operator.run("scale", *deployment, "--replicas=1")
        operator.run("rollout", "status", *deployment, f"--timeout={ceiling():.0f}s")


@pytest.fixture
def spaces(resting: Kubectl) -> Iterator[dict[str, str]]:
    """The namespaces, by their purpose."""
    names = {use: next_name(f"install-{use}") for use in ("system", "fleet", "other")}
    resting.apply([deploy.namespace(name) for name in names.values()])
    yield names
    resting.run("delete", "namespace", *names.values(), "--ignore-not-found", "--wait=false")


@pytest.fixture
def release(provider: Provider, built: list[Built], progress: Progress, spaces: dict[str, str]) -> Iterator[Release]:
    there = Release(commands.helm_of(provider, progress), spaces["system"])
    there.install(**deploy.values(built), namespaces=[spaces["fleet"]], crds={"enabled": False})
    yield there
    there.helm.run("uninstall", SECOND, f"--namespace={there.namespace}", "--ignore-not-found", "--wait")


@pytest.mark.alone
def test_release_is_restricted_upgraded_and_uninstalled(
    release: Release, resting: Kubectl, spaces: dict[str, str], python_image: str
) -> None:
    """A release gets a network policy, changes no child in an upgrade, and ends before its agents."""
    fleet = Fleet(resting, spaces["fleet"], python_image)
    elsewhere = Fleet(resting, spaces["other"], python_image)
    fleet.apply_folder(QUICKSTART / "model.yaml")
    fleet.run("rollout", "status", "deployment/offline-model", f"--timeout={ceiling():.0f}s")
    elsewhere.apply(agent("stranger"))
    fleet.apply(agent("poet"))
    fleet.ready("agent/poet")
    assert elsewhere.get("agent/stranger")["status"] == {"observedGeneration": -1}, "nobody looks after this namespace"

    before, pod = children(fleet), fleet.pod_of("poet")
    model = fleet.get("pods", "--selector=app.kubernetes.io/name=offline-model")["items"][0]["status"]["podIP"]
    fleet.until(lambda: release.reaches(model, 8080), "an open operator reaches any pod")
    (slices,) = resting.get("endpointslices", "--selector=kubernetes.io/service-name=kubernetes")["items"]
    api = [port["port"] for port in slices["ports"]]
    release.install(networkPolicy={"enabled": True, "apiServer": {"ports": api}}, logLevel="DEBUG")
    fleet.until(lambda: not release.reaches(model, 8080), "a closed operator does not")
    address = fleet.get("pod", pod)["status"]["podIP"]
    fleet.until(lambda: release.reaches(address, 7871), "it reads what only the running agent knows")
    assert not release.reaches(address, 7870)

    fleet.apply(agent("painter"))
    fleet.ready("agent/painter")
    left = {name: version for name, version in children(fleet).items() if name in before}
    assert left == before, "an upgrade changes no child"
    assert fleet.pod_of("poet") == pod

    release.helm.run("uninstall", SECOND, f"--namespace={release.namespace}", "--wait")
    fleet.ready(f"pod/{pod}")
    assert {item["metadata"]["name"] for item in fleet.get("agents")["items"]} == {"poet", "painter"}
    for space in spaces.values():
        resting.run("delete", "namespace", space, f"--timeout={ceiling():.0f}s")
        assert resting.run("get", "namespace", space, "--ignore-not-found") == ""
