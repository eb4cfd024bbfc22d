"""A team on the local cluster, and a client of its gateway over a forwarded port."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from e2e.cluster import commands, deploy
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.image_list import OFFLINE
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import Progress
from e2e.scenarios.fleet import Fleet, message
from e2e.scenarios.reviewers import reviewer
from tests.support.machine import ceiling

GATEWAY = "service/fleetwright-gateway"
PERSON = "ada"
_NAMESPACE = "bench-wake"
_MODEL = CHECKOUT / "examples/quickstart/model.yaml"


@dataclass(frozen=True)
class GatewayClient:
    """A namespace, and a client of the gateway with a person's token."""

    fleet: Fleet
    http: httpx.Client

    def call(self, agent: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.http.post(self.path(agent), json=_request(method, params))
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()["result"]
        return result

    def stream(self, agent: str, text: str) -> Any:
        """Return the context of a streamed response to a message."""
        return self.http.stream(
            "POST", self.path(agent), json=_request("SendStreamingMessage", {"message": message(text)})
        )

    def path(self, agent: str) -> str:
        return f"/agents/{self.fleet.namespace}/{agent}/a2a"


def _request(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@contextmanager
def team_on_cluster() -> Iterator[GatewayClient]:
    """Bring up the cluster with the chart, and delete the team's namespace afterwards. The cluster stays."""
    progress = Progress()
    provider = commands.cluster_up(commands.choose(None, {}), progress)
    built = commands.load_images(provider, progress)
    helm = commands.helm_of(provider, progress)
    deploy.install(helm, chosen=deploy.values(built))
    image = next((each.pinned for each in built if each.image is OFFLINE), OFFLINE.reference)
    kubectl = helm.kubectl
    kubectl.run("delete", "namespace", _NAMESPACE, "--ignore-not-found")
    kubectl.apply([deploy.namespace(_NAMESPACE)])
    fleet = Fleet(kubectl, _NAMESPACE, image)
    try:
        fleet.apply_folder(_MODEL)
        fleet.run("rollout", "status", "deployment/offline-model", f"--timeout={ceiling():.0f}s")
        fleet.apply(*reviewer(fleet, PERSON))
        fleet.run("create", "role", "invoke", "--verb=create", "--resource=agents.fleetwright.dev/invoke")
        fleet.run("create", "rolebinding", "invoke", "--role=invoke", f"--serviceaccount={_NAMESPACE}:{PERSON}")
        token = fleet.run("create", "token", PERSON, "--audience=fleetwright-gateway", "--duration=4h").strip()
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
        with (
            kubectl.forwarded(GATEWAY, 80, namespace=SYSTEM) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False) as http,
        ):
            yield GatewayClient(fleet, http)
    finally:
        kubectl.run("delete", "namespace", _NAMESPACE, "--wait=false")
