"""An agent that is killed while the gateway passes a message on: every accepted task ends once.

The caller sends the same message again. The gateway holds it until the next pod is ready.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from joserfc.jwk import ECKey
from tests.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text
from tests.gateway.served_gateway import URL, Client, running
from tests.gateway.test_clients import list_client

from fleetwright_api import names
from fleetwright_gateway.settings import GatewaySettings

OWNER = "client:default"
TOKEN = "client-token-of-the-agent-" + "x" * 20
"""In the form of the operator's tokens, which the gateway passes on."""
BOOK, COOK = "Book table for 4", "Cook a dish of 3 portions"
PATH = "/agents/team/echo/a2a"


@pytest.fixture
def api() -> FleetApi:
    """A cluster with the agent `echo`, which sleeps."""
    cluster = FleetApi()
    cluster.add_agent("echo", spec={"sleep": {"afterIdle": "15m"}}, status={"phase": "Asleep"})
    cluster.add_deployment("echo")
    return cluster


@pytest.fixture
async def gateway(api: FleetApi, tmp_path: Path, process_ring: None) -> AsyncIterator[Client]:
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "ring.json").write_text(json.dumps({"keys": [{**key, "iat": NOW}]}))
    (folder / "token").write_text(token_text("gateway", audience=ISSUER))
    settings = GatewaySettings(url=URL, keys_file=folder / "ring.json", service_account=folder, wake_seconds=150)
    async with running(api, settings) as client:
        yield client


@asynccontextmanager
async def pod(api: FleetApi, guest: Any) -> AsyncIterator[None]:
    """Show the process of the agent as its only pod."""
    found = {"a2a": guest.url, "ops": guest.ops_url}
    ports = [{"name": name, "containerPort": urlsplit(url).port} for name, url in found.items()]
    api.add_pod("echo-1-a", owner=api.find("ReplicaSet", "echo-1"), account="echo", ready=False)
    api.edit("Pod", "echo-1-a", {"spec": {"containers": [{"name": "agent", "ports": ports}]}}, namespace="team")
    yield
    api.remove("Pod", "echo-1-a", namespace="team")


@pytest.mark.parametrize(
    ("text", "reached", "state", "ledger"),
    [
        pytest.param(f"{BOOK} [[think:60]] [[pause:0.1]]", "accepted", "completed", ["table for 4"], id="accepted"),
        pytest.param(COOK, "effect", "failed", ["cooked 3"], id="in a tool call"),
        pytest.param(f"{BOOK} [[pause:2]]", "told", "completed", ["table for 4"], id="after a tool call"),
        pytest.param(BOOK, "answered", "completed", ["table for 4"], id="answered"),
    ],
)
async def test_killed_agent_behind_the_gateway_ends_the_task_once(
    api: FleetApi,
    gateway: Client,
    agent_process: Callable[..., Any],
    message: Callable[..., dict[str, Any]],
    mounted: Any,
    callers: Callable[..., dict[str, Any]],
    house: Any,
    states: Any,
    text: str,
    reached: str,
    state: str,
    ledger: list[str],
) -> None:
    known = [*callers({OWNER: "token-of-default"})["callers"], *callers({OWNER: TOKEN})["callers"]]
    mounted.write(mounted.layout.callers_file, {"version": 1, "callers": known})
    list_client(api, "echo", TOKEN)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message(text)}

    async def send() -> dict[str, Any]:
        async with gateway.request("POST", PATH, token=TOKEN, json=body, headers={"A2A-Version": "1.0"}) as answer:
            answer.raise_for_status()
            return (await answer.json())["result"]["task"]

    async with agent_process() as guest:
        async with pod(api, guest):
            first = asyncio.create_task(send())
            await _until(guest, house, first, reached)
            await guest.kill()
            with suppress(aiohttp.ClientError):
                await first
        again = asyncio.create_task(send())
        while not api.writes.count(f"merge {names.AGENT} echo"):  # noqa: ASYNC110 - the API has no event
            await asyncio.sleep(0.01)
    async with agent_process() as guest, pod(api, guest):
        async with asyncio.timeout(150):
            task = await again
        task = await guest.rested(task)
        assert states(task) == state
        listed = (await guest.call("ListTasks", {}))["result"]["tasks"]
        assert [each["id"] for each in listed] == [task["id"]]
    assert house.ledger == ledger


async def _until(guest: Any, house: Any, first: "asyncio.Task[Any]", reached: str) -> None:
    async def is_reached() -> bool:
        if reached == "effect":
            return bool(house.ledger)
        tasks = (await guest.call("ListTasks", {}))["result"].get("tasks", [])
        return bool(tasks) and (reached == "accepted" or "artifacts" in await guest.get(tasks[0]))

    async with asyncio.timeout(150):
        if reached == "answered":
            await asyncio.wait([first])
            return
        while not await is_reached():  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.01)
