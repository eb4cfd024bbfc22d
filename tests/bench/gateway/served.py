"""The gateway as a process, with an in-memory cluster whose one agent is a real server.

python -m tests.bench.gateway.served FOLDER PORT OPS-PORT AGENT-PORT OTHER-AGENTS CALLER-TOKEN PERSON-TOKEN

The other agents exist only in the cache. The person may call all of them.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

import uvloop
from e2e.cluster.ports import free_port, free_ports
from tests.bench.echo.environment import python_of
from tests.bench.echo.served import CHECKOUT, Served
from tests.bench.gateway.cluster import NAMESPACES, fill
from tests.support.gateway.fleet_api import FleetApi, token_text

from fleetwright_gateway.app import build_gateway
from fleetwright_gateway.process.serving import collect_less_often, freeze_objects, leave_on_signal, serve
from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.settings import GatewaySettings

ISSUER = "http://fleetwright-gateway.bench"
AUDIENCE = "uid-of-echo"
CALLER = token_text("caller", expires=time.time() + 86_400)
PERSON = token_text("ada", expires=time.time() + 86_400)
_SOURCES = (".", "gateway/src", "libs/a2a/src", "libs/api/src", "libs/kube/src")
_TEAM = {"fleet": {"reach": "Direct"}}


def gateway(folder: Path, *, agent_port: int, others: int = 0) -> Served:
    port, ops = free_ports()
    numbers = [str(each) for each in (port, ops, agent_port, others)]
    words = ["-m", "tests.bench.gateway.served", str(folder), *numbers, CALLER, PERSON]
    return Served([str(python_of("gateway")), *words], port, ops, "/readyz", environment=_environment())


def pass_through(*, agent_port: int) -> Served:
    port = free_port()
    words = ["-m", "tests.bench.gateway.pass_through", str(port), str(agent_port)]
    return Served([str(python_of("gateway")), *words], port, port, environment=_environment())


def _environment() -> dict[str, str]:
    """Return the environment of the image, with the sources of this checkout."""
    sources = os.pathsep.join(str(CHECKOUT / each) for each in _SOURCES)
    return {"PYTHONPATH": sources, "SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": "/nonexistent"}


def write_keys(folder: Path, agent_root: Path | None = None) -> None:
    """Write the signing key of the gateway, and the public key into the files of an agent."""
    from joserfc.jwk import ECKey

    key = ECKey.generate_key("P-256", auto_kid=True)
    (folder / "keys.json").write_text(json.dumps({"keys": [{**key.as_dict(private=True), "iat": 0}]}))
    trust = {"version": 1, "issuer": ISSUER, "audience": AUDIENCE, "keys": [key.as_dict(private=False)]}
    if agent_root is not None:
        (agent_root / "etc/fleetwright/auth/gateway.json").write_text(json.dumps(trust))


async def _main(folder: Path, port: int, ops: int, agent_port: int, others: int, *, caller: str, person: str) -> None:
    api = FleetApi()
    known = api.add_running_agent("caller", namespace="bench", spec=_TEAM)
    api.tokens[caller] = api.tokens[known]
    api.tokens[person] = api.tokens[api.add_person("ada")]
    api.grants |= {("ada", f"team-{number}", "") for number in range(NAMESPACES)}
    api.put({"kind": "Agent", "metadata": {"namespace": "bench", "name": "echo", "uid": AUDIENCE}, "spec": _TEAM})
    api.add_pod("echo-1-a", namespace="bench", owner=api.add_deployment("echo", namespace="bench"), account="echo")
    settings = GatewaySettings(
        url=ISSUER,
        keys_file=folder / "keys.json",
        service_account=folder,
        agent_port=agent_port,
        requests_per_minute=100_000_000,
    )
    leaving = asyncio.Event()
    leave_on_signal(leaving)
    async with build_gateway(api, settings) as built:
        await built.synchroniser.fill()
        fill(built.fleet, others)
        collect_less_often()
        freeze_objects()
        sockets = {"traffic_socket": listen(port), "ops_socket": listen(ops)}
        await serve(built.traffic, built.ops, **sockets, drain_seconds=1, leaving=leaving)


if __name__ == "__main__":
    with Path(os.devnull).open("w") as nowhere:
        # One line for each request is part of the gateway's work.
        logging.basicConfig(level="INFO", stream=nowhere)
        uvloop.run(_main(Path(sys.argv[1]), *map(int, sys.argv[2:6]), caller=sys.argv[6], person=sys.argv[7]))
