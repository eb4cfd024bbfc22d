"""An agent that is killed while the gateway passes a message on: every accepted task ends once.

The caller sends the same message again. The gateway holds it until the next pod is ready.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.agent.agent_in_cluster import OWNER, PATH, TOKEN, serve_gateway, show_pod
from tests.support.agent.held_model import HeldModel, serve_held_model
from tests.support.gateway.calls import list_client
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import Client
from tests.support.waiting import await_until, within

from fleetwright_api import names

NEVER = 9
BOOK, COOK = "Book table for 4", "Cook a dish of 3 portions"


HELD = {"accepted": (0, 0), "effect": (NEVER, 0), "told": (1, 3), "answered": (NEVER, 0)}
"""The number of results of tools in the prompts whose replies the model holds, and of pieces before it holds them."""


@pytest.fixture
def api() -> FleetApi:
    """A cluster with the agent `echo`, which sleeps."""
    cluster = FleetApi()
    cluster.add_agent("echo", spec={"sleep": {"afterIdle": "15m"}}, status={"phase": "Asleep"})
    cluster.add_deployment("echo")
    return cluster


@pytest.fixture
async def gateway(api: FleetApi, tmp_path: Path, process_ring: None) -> AsyncIterator[Client]:
    async with serve_gateway(api, tmp_path / "gateway") as client:
        yield client


@pytest.mark.parametrize(
    ("text", "reached", "state", "ledger"),
    [
        pytest.param(BOOK, "accepted", "completed", ["table for 4"], id="accepted"),
        pytest.param(COOK, "effect", "failed", ["cooked 3"], id="in a tool call"),
        pytest.param(BOOK, "told", "completed", ["table for 4"], id="after a tool call"),
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
    serve: Any,
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

    # The model holds its first reply until the kill, its reply after the tool call, or none.
    tool_results, pieces = HELD[reached]
    with serve_held_model(serve, tool_results=tool_results, pieces=pieces) as (model, settings):
        async with agent_process(**settings) as guest:
            async with show_pod(api, guest):
                first = asyncio.create_task(send())
                await reach(guest, model, house, first, reached)
                await guest.kill()
                with suppress(aiohttp.ClientError):
                    await first
            model.released.set()
            again = asyncio.create_task(send())
            await await_until(
                lambda: api.writes.count(f"merge {names.AGENT} echo"),
                "the gateway wakes the agent",
                shown=lambda: api.writes,
            )
        async with agent_process(**settings) as guest, show_pod(api, guest):
            async with within("the gateway passes the message on"):
                task = await again
            task = await guest.rested(task)
            assert states(task) == state
            listed = (await guest.call("ListTasks", {}))["result"]["tasks"]
            assert [each["id"] for each in listed] == [task["id"]]
    assert house.ledger == ledger


async def reach(guest: Any, model: HeldModel, house: Any, first: "asyncio.Task[Any]", reached: str) -> None:
    """Wait until the turn is where the agent is killed."""
    if reached == "effect":
        await await_until(lambda: house.ledger, "the tool has its effect")
    elif reached == "answered":
        async with within("the message is answered"):
            await asyncio.wait([first])
    else:
        await model.wait_until_holding()
    if reached == "told":

        async def has_output() -> bool:
            (task,) = (await guest.call("ListTasks", {}))["result"]["tasks"]
            return "artifacts" in await guest.get(task)

        # The result of a call is on disk before the agent shows what comes after it.
        await await_until(has_output, "the agent shows the answer to the result of the tool")
