"""Questions of tasks that no call waits for: one question of each agent at a time, and no task is lost."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import CARD, build_context

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.conversation import name_of
from fleetwright_agent.tools.peers.questions import undelivered_in
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import ToolCall

_CARD = {**CARD, "capabilities": {"streaming": False}}
COOK = QuestionKey("client:a", "c1", "n/cook")


class Cook(httpx.AsyncBaseTransport):
    """A gateway, and an agent that asks a question in each task."""

    def __init__(self) -> None:
        self.begun = 0
        self.canceled: list[str] = []
        self.renames: dict[str, str] = {}
        """The id with which the agent answers a request for a task, by the id in the request."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"items": []} if request.url.path.startswith("/v1/") else _CARD)
        body = json.loads(await request.aread())
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "result": self._result(body)})

    def _result(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["method"] == "SendMessage":
            self.begun += 1
            return {"task": self._task(str(self.begun), "TASK_STATE_SUBMITTED")}
        name = body["params"]["id"]
        if body["method"] == "CancelTask":
            self.canceled.append(name)
        state = "CANCELED" if name in self.canceled else "INPUT_REQUIRED"
        return self._task(self.renames.get(name, name), f"TASK_STATE_{state}")

    def _task(self, name: str, state: str) -> dict[str, Any]:
        message = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": f"Question {name}?"}]}
        return {"id": name, "contextId": "c", "status": {"state": state, "message": message}}


class Desk:
    """The calling agent."""

    def __init__(self, folder: Path, *, declared: bool = False) -> None:
        """Args: `declared` tells whether the cook is a declared peer."""
        self.cook = Cook()
        self.storage = memory_storage()
        layout = Layout(root=folder)
        layout.gateway_token_file.parent.mkdir(parents=True)
        layout.gateway_token_file.write_text("token")
        layout.peer_token_file("n", "cook").parent.mkdir(parents=True, exist_ok=True)
        layout.peer_token_file("n", "cook").write_text("token")
        stores = self.storage.questions, self.storage.delegated, MemoryTaskLog()
        client, records = httpx.AsyncClient(transport=self.cook), call_records(self.storage)
        peers = [Peer(name="cook", namespace="n", url="http://cook")] if declared else []
        self.fleet = FleetTools(
            "n/desk",
            "http://gateway",
            layout,
            client,
            *stores,
            records=records,
            now=lambda: 0.0,
            declared=[name_of(peer) for peer in peers],
        )
        self.peers = PeerTools(
            "n/desk",
            peers,
            layout,
            client,
            self.storage.questions,
            records=records,
            is_alone=False,
            is_undelivered=undelivered_in(self.storage.delegated),
        )
        self.providers = (self.peers, self.fleet)

    async def begin(self, key: str) -> None:
        (tool,) = [each for each in await self.fleet.tools(build_context()) if each.name == "ask_agent"]
        arguments = {"agent": "cook", "message": "Cook.", "wait": False}
        turn = TurnRequest("client:a", "c1", "t1", "x")
        await tool.run(ToolCall(arguments, turn, lambda _: None, key=key))

    async def ask(self, task: str) -> None:
        """Ask the cook again, without an answer to its question, and wait for the next question."""
        (tool,) = [each for each in await self.fleet.tools(build_context()) if each.name == "ask_agent"]
        turn = TurnRequest("client:a", "c1", task, "x")
        await tool.run(ToolCall({"agent": "cook", "message": "Cook."}, turn, lambda _: None, key=f"ask in {task}"))

    async def turn(self, task: str, *, fails: bool = False, asks: bool = False) -> list[str]:
        """Run a turn that gets the results and answers no question. Return the tasks of the results."""
        results = await self.fleet.background.finished(TurnRequest("client:a", "c1", task, "x"))
        if asks:
            await self.ask(task)
        if not fails:
            await self.fleet.background.delivered([each.task for each in results])
        for tools in self.providers:
            tools.over("client:a", task)
            await tools.close()
        return [each.task.task_id for each in results]


async def test_questions_of_one_agent_come_one_after_the_other(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for key in ("1", "2", "3"):
        await desk.begin(key)
    assert await desk.turn("t2") == ["1"]
    assert desk.cook.canceled == ["1"], "the turn has ended without an answer"
    assert [each.task_id for each in await desk.storage.delegated.of("client:a", "c1")] == ["2", "3"]
    assert await desk.turn("t3") == ["2"]
    assert await desk.turn("t4") == ["3"]
    assert desk.cook.canceled == ["1", "2", "3"]


async def test_background_question_waits_for_another_question(tmp_path: Path) -> None:
    """A task of the agent that waits for a person has a question of the same peer."""
    desk = Desk(tmp_path)
    await desk.storage.questions.put(OpenQuestion(COOK, "other", "waiting"))
    await desk.begin("1")
    assert await desk.turn("t2") == []
    assert desk.cook.canceled == []
    await desk.storage.questions.take(COOK)
    assert await desk.turn("t3") == ["1"]


async def test_failed_turn_keeps_a_background_question(tmp_path: Path) -> None:
    """The model provider is down, so the turn fails before the model sees the question."""
    desk = Desk(tmp_path)
    await desk.begin("1")
    assert await desk.turn("t2", fails=True) == ["1"]
    assert desk.cook.canceled == []
    assert await desk.storage.questions.all() == []
    assert await desk.turn("t3") == ["1"]
    assert desk.cook.canceled == ["1"], "the turn has ended without an answer"


async def test_failed_turn_keeps_a_background_question_of_a_declared_peer(tmp_path: Path) -> None:
    desk = Desk(tmp_path, declared=True)
    await desk.begin("1")
    assert await desk.turn("t2", fails=True) == ["1"]
    assert desk.cook.canceled == []
    assert await desk.turn("t3") == ["1"]
    assert desk.cook.canceled == ["1"], "the turn has ended without an answer"


@pytest.mark.parametrize(
    ("fails", "canceled", "next_results"),
    [
        pytest.param(True, ["2"], ["1"], id="the turn fails: only the question of the waiting call is closed"),
        pytest.param(False, ["1", "2"], [], id="the turn ends without an answer to either question"),
    ],
)
async def test_another_call_closes_a_background_question_at_the_end_of_the_turn(
    tmp_path: Path, fails: bool, canceled: list[str], next_results: list[str]
) -> None:
    desk = Desk(tmp_path)
    await desk.begin("1")
    assert await desk.turn("t2", fails=fails, asks=True) == ["1"]
    assert sorted(desk.cook.canceled) == canceled
    assert await desk.turn("t3") == next_results


async def test_answer_with_another_task_is_no_result(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.begin("1")
    desk.cook.renames = {"1": "2"}
    (result,) = await desk.fleet.background.finished(TurnRequest("client:a", "c1", "t2", "x"))
    assert (result.task.task_id, result.ok, result.text) == ("1", False, "cook answered with another task")
    assert await desk.storage.questions.all() == []
