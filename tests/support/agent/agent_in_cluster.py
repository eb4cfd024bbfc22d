"""A cluster in memory that shows the process of an agent as its pod, for a gateway in front of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joserfc.jwk import ECKey
from tests.support.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text
from tests.support.gateway.served_gateway import URL, Client, running
from tests.support.machine import ceiling

from fleetwright_gateway.settings import GatewaySettings

OWNER = "client:default"
TOKEN = "client-token-of-the-agent-" + "x" * 20
"""In the form of the operator's tokens, which the gateway passes on."""
PATH = "/agents/team/echo/a2a"


@asynccontextmanager
async def show_pod(api: FleetApi, agent: Any) -> AsyncIterator[None]:
    """Show the process of the agent as its only pod."""
    found = {"a2a": agent.url, "ops": agent.ops_url}
    ports = [{"name": name, "containerPort": urlsplit(url).port} for name, url in found.items()]
    api.add_pod("echo-1-a", owner=api.find("ReplicaSet", "echo-1"), account="echo", ready=False)
    api.edit("Pod", "echo-1-a", {"spec": {"containers": [{"name": "agent", "ports": ports}]}}, namespace="team")
    yield
    api.remove("Pod", "echo-1-a", namespace="team")


def write_gateway_files(folder: Path) -> None:
    """Write the key of a gateway and its service account."""
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    folder.mkdir()
    (folder / "ring.json").write_text(json.dumps({"keys": [{**key, "iat": NOW}]}))
    (folder / "token").write_text(token_text("gateway", audience=ISSUER))


@asynccontextmanager
async def serve_gateway(api: FleetApi, folder: Path) -> AsyncIterator[Client]:
    """Serve a gateway to this cluster, with its key and its service account in the folder."""
    await asyncio.to_thread(write_gateway_files, folder)
    wake = int(ceiling())
    settings = GatewaySettings(url=URL, keys_file=folder / "ring.json", service_account=folder, wake_seconds=wake)
    async with running(api, settings) as client:
        yield client
