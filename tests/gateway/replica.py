"""A gateway in a process of its own, with an in-memory cluster, for tests that end it in the middle of its work.

It prints the port of its traffic, and later a line for each wake that it asks for. All replicas have the same cluster:
the agents `caller` and `callee`. The callee's pod is at the port that the test names.
"""

import argparse
import asyncio
import logging
from pathlib import Path

from tests.support.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text

from fleetwright_a2a.clock import Clock
from fleetwright_api import names
from fleetwright_gateway.app import build_gateway
from fleetwright_gateway.process.serving import leave_on_signal, serve
from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.settings import GatewaySettings
from fleetwright_kube.port import Object, Resource

ASLEEP = {"phase": "Asleep", "sleep": {"since": "2026-03-01T11:00:00Z"}}
WOKEN = "woken"
TOKEN = token_text("team-caller-1-a")
"""The token of the caller's pod, which every replica accepts."""
_START_SECONDS = 0.2
_DRAIN_SECONDS = 10


class WakingApi(FleetApi):
    """A cluster whose operator starts the pod of the callee a moment after a wake."""

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        found = await super().merge(resource, namespace, name, patch)
        print(WOKEN, flush=True)  # noqa: T201 - the test reads it
        asyncio.get_running_loop().call_later(_START_SECONDS, self._start, name)
        return found

    def _start(self, name: str) -> None:
        if not self.has("Pod", f"{name}-1-b"):
            self.add_pod(f"{name}-1-b", owner=self.find("ReplicaSet", f"{name}-1"), account=name, ready=False)


def cluster(*, asleep: bool) -> FleetApi:
    api = WakingApi()
    reach = {"fleet": {"reach": "Direct"}}
    api.add_running_agent("caller", spec=reach)
    api.add_running_agent("callee", spec={**reach, **({"sleep": {"afterIdle": "15m"}} if asleep else {})})
    if asleep:
        api.remove("Pod", "callee-1-a")
        api.set_status(names.AGENT, "callee", ASLEEP)
    return api


async def run(arguments: argparse.Namespace) -> None:
    api = cluster(asleep=arguments.asleep)
    (arguments.folder / "token").write_text(token_text("gateway", audience=ISSUER))
    settings = GatewaySettings(
        url="http://fleetwright-gateway.system",
        keys_file=arguments.folder / "ring.json",
        service_account=arguments.folder,
        agent_port=arguments.upstream,
        agent_ops_port=arguments.upstream,
        requests_per_minute=100_000,
    )
    leaving = asyncio.Event()
    leave_on_signal(leaving)
    traffic, ops = listen(0, host="127.0.0.1"), listen(0, host="127.0.0.1")
    async with build_gateway(api, settings, clock=Clock(now_ns=lambda: int(NOW * 1e9))) as gateway:
        assert await gateway.synchroniser.fill()
        informer = gateway.synchroniser.informer
        views = {"ReplicaSet": "ReplicaSetMetadata", "Deployment": "DeploymentMetadata"}
        api.listeners.append(lambda event, kind, body: informer.event(views.get(kind, kind), event, body))
        print(traffic.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
        await serve(
            gateway.traffic,
            gateway.ops,
            traffic_socket=traffic,
            ops_socket=ops,
            drain_seconds=_DRAIN_SECONDS,
            leaving=leaving,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--asleep", action="store_true")
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
