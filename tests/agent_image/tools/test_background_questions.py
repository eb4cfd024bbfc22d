"""Questions of tasks that no call waits for: one question of each agent at a time, and no task is lost."""

import json
from pathlib import Path
from typing import Any

import httpx
from tests.agent_image.call_records import call_records
from tests.agent_image.tools.test_fleet import context
from tests.agent_image.tools.test_retries import CARD

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.port import ToolCall

COOK = QuestionKey("client:a", "c1", "n/cook")


class Cook(httpx.AsyncBaseTransport):
    """A gateway, and an agent that asks a question in each task."""

    def __init__(self) -> None:
        self.begun = 0
        self.canceled: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"items": []} if request.url.path.startswith("/v1/") else CARD)
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
        return self._task(name, f"TASK_STATE_{state}")

    def _task(self, name: str, state: str) -> dict[str, Any]:
        message = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": f"Question {name}?"}]}
        return {"id": name, "contextId": "c", "status": {"state": state, "message": message}}


class Desk:
    """The calling agent."""

    def __init__(self, folder: Path) -> None:
        self.cook = Cook()
        self.storage = memory_storage()
        layout = Layout(root=folder)
        layout.gateway_token_file.parent.mkdir(parents=True)
        layout.gateway_token_file.write_text("token")
        stores = self.storage.questions, self.storage.delegated, MemoryTaskLog()
        client, records = httpx.AsyncClient(transport=self.cook), call_records(self.storage)
        self.fleet = FleetTools("n/desk", "http://gateway", layout, client, *stores, records=records, now=lambda: 0.0)

    async def begin(self, key: str) -> None:
        (tool,) = [each for each in await self.fleet.tools(context()) if each.name == "ask_agent"]
        arguments = {"agent": "cook", "message": "Cook.", "wait": False}
        turn = TurnRequest("client:a", "c1", "t1", "x")
        await tool.run(ToolCall(arguments, turn, lambda _: None, key=key))

    async def turn(self, task: str, *, fails: bool = False) -> list[str]:
        """Run a turn that gets the results and answers no question. Return the tasks of the results."""
        results = await self.fleet.background.finished(TurnRequest("client:a", "c1", task, "x"))
        if not fails:
            await self.fleet.background.delivered([each.task for each in results])
        self.fleet.over("client:a", task)
        await self.fleet.close()
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
