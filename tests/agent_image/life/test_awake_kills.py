"""An awake agent that is killed during a call through the gateway: the caller sees a failure, and the task ends once.

The caller sends the same message again after the restart of the agent.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.agent.agent_in_cluster import OWNER, PATH, TOKEN, serve_gateway, show_pod
from tests.support.agent.held_model import serve_held_model
from tests.support.gateway.calls import list_client
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import Client
from tests.support.waiting import within

pytestmark = pytest.mark.starts_first
READY = [{"type": "Ready", "status": "True"}]
TEXT = "Book table for 4"
ANSWER = "Here is what I found. A table for 4 is booked."
ALL = 1 + len(ANSWER.split())
"""The pieces of the model's reply before its end: one without text, and one for each word."""


@pytest.fixture
def api() -> FleetApi:
    """A cluster with the agent `echo`, which never sleeps."""
    cluster = FleetApi()
    cluster.add_agent("echo")
    cluster.add_deployment("echo")
    list_client(cluster, "echo", TOKEN)
    return cluster


@pytest.fixture
async def gateway(api: FleetApi, tmp_path: Path, process_ring: None) -> AsyncIterator[Client]:
    async with serve_gateway(api, tmp_path / "gateway") as client:
        yield client


@pytest.fixture
def start(
    api: FleetApi, agent_process: Callable[..., Any], mounted: Any, callers: Callable[..., dict[str, Any]]
) -> Callable[..., Any]:
    """Return a function that starts the agent as the only pod, which is ready until the end of the context."""
    known = [*callers({OWNER: "token-of-default"})["callers"], *callers({OWNER: TOKEN})["callers"]]
    mounted.write(mounted.layout.callers_file, {"version": 1, "callers": known})

    @asynccontextmanager
    async def of(**settings: Any) -> AsyncIterator[Any]:
        async with agent_process(**settings) as guest, show_pod(api, guest):
            api.set_status("Pod", "echo-1-a", {"phase": "Running", "podIP": "127.0.0.1", "conditions": READY})
            yield guest

    return of


class Caller:
    def __init__(self, client: Client) -> None:
        self._client = client

    def _posted(self, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._client.request("POST", PATH, token=TOKEN, json=body, headers={"A2A-Version": "1.0"})

    async def send(self, params: Any) -> tuple[int, str, Any]:
        """Send a message. Return the status, the header `Fleetwright-Failure`, and the response."""
        async with self._posted("SendMessage", params) as answer:
            return answer.status, answer.headers.get("Fleetwright-Failure", ""), await answer.json()

    async def events(self, method: str, params: Any) -> AsyncGenerator[Any]:
        """Yield the events of a stream. Raises: aiohttp.ClientPayloadError: the stream is broken."""
        async with self._posted(method, params) as answer:
            assert answer.status == 200
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])["result"]


def text_of(event: Any) -> str:
    parts = event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
    return "".join(part.get("text", "") for part in parts)


async def test_call_of_a_killed_agent_fails_and_is_repeated(
    start: Any,
    gateway: Client,
    message: Any,
    house: Any,
    states: Any,
    serve: Any,
) -> None:
    """The agent is killed after it has accepted the message, and before its response begins."""
    caller, params = Caller(gateway), message(TEXT)
    with serve_held_model(serve, tool_results=0) as (model, settings):
        async with start(**settings) as guest:
            sending = asyncio.create_task(caller.send(params))
            await model.wait_until_holding()
            await guest.kill()
            assert (await sending)[:2] == (502, "lost")
            assert (await caller.send(params))[:2] == (502, "unreachable")
        model.released.set()
        async with start(**settings) as guest:
            status, _, answer = await caller.send(params)
            task = await guest.rested(answer["result"]["task"])
            assert (status, states(task)) == (200, "completed")
            await _ran_once(guest, task, house)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        pytest.param(5, "Here", id="in the middle of the stream"),
        pytest.param(ALL, ANSWER, id="before the last event"),
    ],
)
async def test_stream_of_a_killed_agent_breaks_and_is_resumed(
    start: Any,
    gateway: Client,
    message: Any,
    house: Any,
    states: Any,
    serve: Any,
    pieces: int,
    shown: str,
) -> None:
    caller, params = Caller(gateway), message(TEXT)
    with serve_held_model(serve, tool_results=1, pieces=pieces) as (model, settings):
        async with start(**settings) as guest, aclosing(caller.events("SendStreamingMessage", params)) as events:
            task_id, text = (await anext(events))["task"]["id"], ""
            async with within(f"the stream shows {shown!r}", shown=lambda: text):
                while shown not in text:
                    text += text_of(await anext(events))
            await guest.kill()
            with pytest.raises(aiohttp.ClientPayloadError):
                [event async for event in events]
        async with start(**settings) as guest:
            resumed = caller.events("SubscribeToTask", {"id": task_id})
            assert states((await anext(resumed))["task"]) == "working"
            model.released.set()
            last = [event async for event in resumed][-1]
            assert states(last["statusUpdate"]) == "completed"
            repeated = [event async for event in caller.events("SendStreamingMessage", params)]
            assert repeated[0]["task"]["id"] == task_id
            await _ran_once(guest, await guest.get({"id": task_id}), house)


async def _ran_once(guest: Any, task: Any, house: Any) -> None:
    (artifact,) = task["artifacts"]
    assert text_of({"artifactUpdate": {"artifact": artifact}}) == ANSWER
    listed = (await guest.call("ListTasks", {}))["result"]["tasks"]
    assert [each["id"] for each in listed] == [task["id"]]
    assert house.ledger == ["table for 4"]
