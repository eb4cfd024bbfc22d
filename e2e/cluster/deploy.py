"""Installs the product in any cluster: the chart, the examples, and one message."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import ClusterError, Progress
from tests.support.machine import ceiling

RELEASE = "fleetwright"
SYSTEM = "fleetwright-system"
QUICKSTART = "quickstart"
DEFINITIONS = tuple(f"{kind}.fleetwright.dev" for kind in ("agents", "skills", "mcpservers", "approvals"))
MAY_CALL_GATEWAY = {"gateway-access": "allowed"}
"""The labels of the pods, besides those of agents, that the network policy lets reach the gateway."""
_GATEWAY_CALLERS = {"namespaceSelector": {}, "podSelector": {"matchLabels": MAY_CALL_GATEWAY}}
RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}


@dataclass(frozen=True)
class Helm:
    program: Path
    kubectl: Kubectl
    home: Path
    """Runs helm with its own files outside the user's folders."""

    def run(self, *words: str | Path) -> str:
        which = [f"--kubeconfig={self.kubectl.kubeconfig}"]
        if self.kubectl.context:
            which.append(f"--kube-context={self.kubectl.context}")
        homes = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **homes, "KUBECACHEDIR": str(self.home / "kubectl")}
        done = subprocess.run(
            [self.program, *words, *which], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ClusterError(f"helm {words[0]}: {done.stderr.strip()[-2000:]}")
        return done.stdout


def values(built: Sequence[Built]) -> dict[str, str]:
    """Return chart values that name the built images by content digest, so that a changed image is rolled out."""
    keys = {"operator": "image", "agent": "agentImage", "gateway": "gateway.image"}
    return {keys[image.image.name]: image.pinned for image in built if image.image.name in keys}


def install(helm: Helm, *, chosen: Mapping[str, str]) -> None:
    helm.kubectl.apply([namespace(SYSTEM)])
    sets = [f"--set-string={key}={value}" for key, value in chosen.items()]
    where = f"--namespace={SYSTEM}"
    if RELEASE in helm.run("list", "--pending", "--short", where).split():
        helm.run("uninstall", RELEASE, where, "--wait")  # an earlier helm was interrupted
    try:
        helm.run(
            *("upgrade", "--install", RELEASE, CHECKOUT / "charts" / "fleetwright"),
            *(
                where,
                "--wait",
                f"--timeout={ceiling():.0f}s",
                *sets,
                "--set=rbac.clusterWideSecrets=true",
                "--set=gateway.enabled=true",
                "--set=networkPolicy.enabled=true",
                f"--set-json=networkPolicy.apiServer.ports={json.dumps(_api_server_ports(helm.kubectl))}",
                f"--set-json=gateway.allowedPeers={json.dumps([_GATEWAY_CALLERS])}",
            ),
        )
    except ClusterError as error:
        raise ClusterError(f"{error}\n{_state(helm.kubectl)}") from error


def _api_server_ports(kubectl: Kubectl) -> list[int]:
    """Return the ports of the API server itself, to which network policies apply."""
    found = kubectl.get("endpointslices", "--selector=kubernetes.io/service-name=kubernetes", "--namespace=default")
    return sorted({port["port"] for each in found["items"] for port in each["ports"]})


def _state(kubectl: Kubectl) -> str:
    """Return the pods and the last log lines of the operator, for an error message."""
    where = f"--namespace={SYSTEM}"
    logs = ("logs", "--selector=app.kubernetes.io/instance=" + RELEASE, "--tail=15")
    return kubectl.attempt("get", "pods", where).stdout + kubectl.attempt(*logs, where).stdout


def uninstall(helm: Helm, progress: Progress) -> None:
    """Remove the release and the quickstart. Remove the CRDs only if no custom object is left in the cluster."""
    helm.kubectl.run("delete", "namespace", QUICKSTART, "--ignore-not-found", f"--timeout={ceiling():.0f}s")
    helm.run("uninstall", RELEASE, f"--namespace={SYSTEM}", "--ignore-not-found", "--wait")
    left = helm.kubectl.attempt("get", ",".join(DEFINITIONS), "--all-namespaces", "-o", "name").stdout.split()
    if left:
        progress.say(f"the CRDs remain, because the cluster has other objects of them: {' '.join(left[:5])}")
    else:
        helm.kubectl.run("delete", "customresourcedefinition", *DEFINITIONS, "--ignore-not-found")
    helm.kubectl.run("delete", "namespace", SYSTEM, "--ignore-not-found", f"--timeout={ceiling():.0f}s")


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}


def quickstart(kubectl: Kubectl, progress: Progress) -> None:
    kubectl.apply([namespace(QUICKSTART)])
    kubectl.run("apply", f"--namespace={QUICKSTART}", "-f", CHECKOUT / "examples" / "quickstart")
    progress.say("quickstart applied")
    waited = kubectl.attempt(
        *("wait", "--for=condition=Ready", "agents", "--all"),
        *(f"--namespace={QUICKSTART}", f"--timeout={ceiling():.0f}s"),
    )
    if waited.returncode:
        shown = kubectl.attempt("get", "agents,mcpservers,skills,pods", f"--namespace={QUICKSTART}").stdout
        raise ClusterError(f"the agents are not Ready: {waited.stderr.strip()}\n{shown}")


@contextmanager
def client(kubectl: Kubectl, *, agent: str, image: str, where: str = QUICKSTART) -> Iterator[str]:
    """Create a short-lived pod that may call the agent and has its default client's credential. Yield the pod's name.

    The caller runs inside the cluster because the network policy of every provider admits only labelled pods.
    """
    name = f"{agent}-caller"
    kubectl.run("delete", "pod", name, f"--namespace={where}", "--ignore-not-found", "--wait")
    kubectl.apply([_client_pod(name, agent=agent, image=image, where=where)])
    try:
        kubectl.run(
            "wait", "--for=condition=Ready", f"pod/{name}", f"--namespace={where}", f"--timeout={ceiling(6):.0f}s"
        )
        yield name
    finally:
        kubectl.run("delete", "pod", name, f"--namespace={where}", "--wait=false", "--grace-period=0")


def _client_pod(name: str, *, agent: str, image: str, where: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where, "labels": {"fleetwright.dev/may-call": agent}},
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "caller",
                    "image": image,
                    "command": ["sleep", "3600"],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "credential", "mountPath": "/run/credential", "readOnly": True}],
                }
            ],
            "volumes": [
                {"name": "credential", "secret": {"secretName": f"{agent}-client-default", "defaultMode": 0o440}}
            ],
        },
    }


def say(kubectl: Kubectl, pod: str, *, agent: str, words: str, where: str = QUICKSTART) -> str:
    """Return the output of `fleetwright say`: the answer of the agent and its cost."""
    url = f"http://{agent}.{where}.svc.cluster.local"
    # The network plugin may admit a new pod only a moment after its start.
    seconds, token = f"--wait={ceiling(3):.0f}", "--token-file=/run/credential/token"
    command = ("fleetwright", "say", seconds, f"--url={url}", token, words)
    return kubectl.run("exec", pod, f"--namespace={where}", "--", *command).strip()
