"""Peers that complete a task without text in an artifact. A call that waits and one that does not have the same text.

Such peers are executors of the A2A SDK and other images. Agents of Fleetwright answer in an artifact.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import CARD, build_context

from fleetwright_a2a.extensions import COST
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import Frame, PeerCost, TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import PeerCallStatus
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.response import MOST_CHARACTERS
from fleetwright_agent.tools.port import ToolCall

TURN = TurnRequest("client:a", "c1", "t2", "x")
NO_TEXT = "cook has completed the task without text."
LONG = "All orders are shipped. " * 1000


def message(*parts: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "messageId": "m",
        "role": "ROLE_AGENT",
        "parts": list(parts),
        "metadata": metadata,
        "extensions": [*metadata],
    }


def completed(status: dict[str, Any] | None, *parts: dict[str, Any]) -> dict[str, Any]:
    """Return a task that has completed, with the message of its status and the parts of its artifact."""
    about = {"state": "TASK_STATE_COMPLETED", **({} if status is None else {"message": status})}
    artifacts = [{"artifactId": "a", "parts": list(parts)}] if parts else []
    return {"id": "t", "contextId": "c", "status": about, "artifacts": artifacts}


DATA = {"data": {"orders": 3}}
FILE = {"raw": "AAAA", "filename": "orders.bin", "mediaType": "application/octet-stream"}
ANSWERS = [
    pytest.param(completed(message({"text": "shipped"})), "shipped", id="in the status message"),
    pytest.param(completed(message({"text": LONG})), LONG, id="a long status message"),
    pytest.param(completed(message({"text": "x" * 60_000})), "x" * MOST_CHARACTERS, id="more than the limit"),
    pytest.param(completed(message({"text": "shipped"}), DATA), "shipped", id="a status message and data"),
    pytest.param(completed(message({"text": "done"}), {"text": "shipped"}), "shipped", id="a status message and text"),
    pytest.param(completed(message(DATA)), NO_TEXT, id="data in the status message"),
    pytest.param(completed(None, DATA), NO_TEXT, id="only a data part"),
    pytest.param(completed(None, FILE), NO_TEXT, id="only a file part"),
    pytest.param(completed(None, {"text": ""}), NO_TEXT, id="an empty text"),
    pytest.param(completed(None), NO_TEXT, id="nothing"),
]


class Cook(httpx.AsyncBaseTransport):
    """A gateway, and an agent that has done each task at once."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"items": []} if request.url.path.startswith("/v1/") else CARD)
        body = json.loads(await request.aread())
        answer = {"jsonrpc": "2.0", "id": body["id"]}
        if body["method"] == "GetTask":
            return httpx.Response(200, json={**answer, "result": self.task})
        event = {**answer, "result": {"task": self.task}}
        if body["method"] == "SendMessage":
            return httpx.Response(200, json=event)
        return httpx.Response(
            200, headers={"Content-Type": "text/event-stream"}, content=f"data: {json.dumps(event)}\n\n"
        )


def fleet_of(cook: Cook, folder: Path, storage: Storage) -> FleetTools:
    layout = Layout(root=folder)
    layout.gateway_token_file.parent.mkdir(parents=True)
    layout.gateway_token_file.write_text("token")
    stores = storage.questions, storage.delegated, MemoryTaskLog()
    client, records = httpx.AsyncClient(transport=cook), call_records(storage)
    return FleetTools("n/desk", "http://gateway", layout, client, *stores, records=records, now=lambda: 0.0)


async def ask(fleet: FleetTools, *, wait: bool, frames: list[Frame] | None = None) -> str:
    (tool,) = [each for each in await fleet.tools(build_context()) if each.name == "ask_agent"]
    emit = [].append if frames is None else frames.append
    arguments = {"agent": "cook", "message": "Ship the orders.", "wait": wait}
    return str(await tool.run(ToolCall(arguments, TurnRequest("client:a", "c1", "t1", "x"), emit)))


@pytest.mark.parametrize(("task", "wanted"), ANSWERS)
async def test_waiting_call_returns_an_answer_without_text(tmp_path: Path, task: Any, wanted: str) -> None:
    assert await ask(fleet_of(Cook(task), tmp_path, memory_storage()), wait=True) == wanted


@pytest.mark.parametrize(("task", "wanted"), ANSWERS)
async def test_background_result_without_text_is_delivered(tmp_path: Path, task: Any, wanted: str) -> None:
    storage = memory_storage()
    fleet = fleet_of(Cook(task), tmp_path, storage)
    await ask(fleet, wait=False)
    (result,) = await fleet.background.finished(TURN)
    assert (result.text, result.ok) == (wanted, True)
    await fleet.background.delivered([result.task])
    assert await storage.delegated.of("client:a", "c1") == []
    assert await fleet.background.finished(TURN) == []


async def test_background_result_without_text_has_its_cost(tmp_path: Path) -> None:
    task = completed(message(DATA, **{COST: {"costUsd": "0.5"}}))
    storage, frames = memory_storage(), []
    await ask(fleet_of(Cook(task), tmp_path / "one", memory_storage()), wait=True, frames=frames)
    fleet = fleet_of(Cook(task), tmp_path / "two", storage)
    await ask(fleet, wait=False)
    (result,) = await fleet.background.finished(TURN)
    assert list(result.frames) == frames == [PeerCost("cook", Decimal("0.5"))]
    (record,) = await storage.peer_calls.of()
    assert (record.status, record.result) == (PeerCallStatus.COMPLETED, NO_TEXT)


@pytest.mark.parametrize("state", ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"])
async def test_background_result_waits_while_the_peer_works(tmp_path: Path, state: str) -> None:
    """A peer that works may already have sent a status with text."""
    cook = Cook({"id": "t", "contextId": "c", "status": {"state": state, "message": message({"text": "cooking"})}})
    storage = memory_storage()
    fleet = fleet_of(cook, tmp_path, storage)
    await ask(fleet, wait=False)
    assert await fleet.background.finished(TURN) == []
    assert len(await storage.delegated.of("client:a", "c1")) == 1
    cook.task = completed(None)
    (result,) = await fleet.background.finished(TURN)
    assert result.text == NO_TEXT
