"""The cluster works: DNS, enforced policies, volumes that keep and lose their data, Pod Security.

The other scenarios depend on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.cluster.kubectl import Kubectl
from e2e.scenarios import workloads
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import wait_until

SECONDS = 2 * machine_factor()
CALL = f"import sys,urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout={SECONDS}).status)"

CONNECT = f"import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout={SECONDS})"


@dataclass(frozen=True)
class Here:
    """One namespace with two client pods and one server pod."""

    kubectl: Kubectl
    namespace: str
    image: str

    def apply(self, *manifests: dict[str, Any]) -> None:
        for manifest in manifests:
            manifest["metadata"]["namespace"] = self.namespace
        self.kubectl.apply(manifests)

    def wait(self, what: str, condition: str) -> None:
        self.kubectl.run(
            "wait", f"--for={condition}", what, f"--namespace={self.namespace}", f"--timeout={ceiling():.0f}s"
        )

    def run(self, pod: str, *command: str) -> tuple[bool, str]:
        done = self.kubectl.attempt("exec", pod, f"--namespace={self.namespace}", "--", *command)
        return done.returncode == 0, done.stdout + done.stderr

    def reaches(self, pod: str, url: str) -> bool:
        return self.run(pod, "python", "-c", CALL, url)[0]

    def connects(self, pod: str, host: str, port: int) -> bool:
        return self.run(pod, "python", "-c", CONNECT, host, str(port))[0]

    def soon(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, pause=0.3)


@pytest.fixture
def here(kubectl: Kubectl, new_namespace: Callable[[], str], python_image: str) -> Here:
    return Here(kubectl, new_namespace(), python_image)


@pytest.fixture
def served(here: Here) -> Here:
    pods = [
        workloads.pod("server", image=here.image, command=workloads.SERVE),
        workloads.pod("friend", image=here.image, command=workloads.SLEEP, labels={"may": "call"}),
        workloads.pod("stranger", image=here.image, command=workloads.SLEEP),
    ]
    here.apply(*pods, workloads.service("server"))
    for pod in pods:
        here.wait(f"pod/{pod['metadata']['name']}", "condition=Ready")
    here.soon(lambda: here.reaches("stranger", "http://server"), "server answers without a policy")
    return here


def test_dns_resolves_full_and_short_service_names(served: Here) -> None:
    full = f"http://server.{served.namespace}.svc.cluster.local"
    served.soon(lambda: served.reaches("friend", "http://server"), "the short name is resolved")
    served.soon(lambda: served.reaches("friend", full), "the full name is resolved")
    assert not served.reaches("friend", "http://nobody")


def test_network_policy_limits_ingress_and_applies_changes(served: Here) -> None:
    """Ingress admits the allowed pod only, and a changed policy takes effect."""
    allowed = {"from": [{"podSelector": {"matchLabels": {"may": "call"}}}], "ports": [{"port": workloads.PORT}]}
    served.apply(workloads.policy("callers", of="server", ingress=[allowed]))
    served.soon(lambda: not served.reaches("stranger", "http://server"), "the stranger is kept out")
    served.soon(lambda: served.reaches("friend", "http://server"), "the friend is let in")

    served.apply(workloads.policy("callers", of="server", ingress=[]))
    served.soon(lambda: not served.reaches("friend", "http://server"), "the friend is kept out")


def test_network_policy_limits_egress_to_the_declared_address(served: Here) -> None:
    dns = {"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]}
    dns["ports"] = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]  # type: ignore[dict-item]  # one literal of two shapes
    server = {"to": [{"podSelector": {"matchLabels": {"app": "server"}}}]}
    served.apply(workloads.pod("other", image=served.image, command=workloads.SERVE), workloads.service("other"))
    served.wait("pod/other", "condition=Ready")
    served.soon(lambda: served.reaches("stranger", "http://other"), "the other server answers without a policy")
    served.soon(lambda: served.connects("stranger", "kubernetes.default.svc", 443), "the API server is reached")

    served.apply(workloads.policy("leaving", of="stranger", egress=[dns, server]))
    served.soon(lambda: not served.reaches("stranger", "http://other"), "the undeclared address is closed")
    served.soon(lambda: served.reaches("stranger", "http://server"), "the declared address is open")
    assert not served.connects("stranger", "kubernetes.default.svc", 443)


def test_volume_survives_its_pod_and_is_empty_for_the_next_claim(here: Here) -> None:
    pod = workloads.pod("writer", image=here.image, command=workloads.SLEEP, claim="memory")
    here.apply(workloads.claim("memory"), pod)
    here.wait("pod/writer", "condition=Ready")
    assert here.run("writer", "sh", "-c", "mkdir -p /tmp/a/b && echo kept > /tmp/a/b/c")[0]
    here.kubectl.run("delete", "pod", "writer", f"--namespace={here.namespace}", "--wait")
    here.apply(pod)
    here.wait("pod/writer", "condition=Ready")
    assert here.run("writer", "cat", "/tmp/a/b/c") == (True, "kept\n")

    where = ("get", "pvc", "memory", f"--namespace={here.namespace}", "-o", "jsonpath={.spec.volumeName}")
    volume = here.kubectl.run(*where)
    here.kubectl.run("delete", "pod/writer", "pvc/memory", f"--namespace={here.namespace}", "--wait")
    phase = ("get", "pv", volume, "--ignore-not-found", "-o", "jsonpath={.status.phase}")
    wait_until(lambda: here.kubectl.run(*phase) in {"Available", ""}, "the volume is free again", pause=0.5)
    here.apply(workloads.claim("memory"), pod)
    here.wait("pod/writer", "condition=Ready")
    assert here.run("writer", "ls", "-A", "/tmp") == (True, "")


def test_pod_security_refuses_an_unrestricted_pod(here: Here) -> None:
    rogue = workloads.pod("rogue", image=here.image, command=workloads.SLEEP)
    rogue["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Exception, match="violates PodSecurity"):
        here.apply(rogue)
