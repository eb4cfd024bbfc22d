"""Tasks that an agent gives to another agent without waiting: the result comes with a later message, exactly once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.agent_image.plain import NO_TLS

from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest, TurnRequest
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteDelegatedTasks
from fleetwright_cli.offline.model import OfflineModel

COOK = {"namespace": "team", "name": "cook", "description": "Books tables.", "phase": "Running"}
BEGUN = "which was begun earlier"
LATER = 'Ask the agent "cook" "Book table for 4"'


class AskingCook:
    """A turn that asks a question."""

    async def run(self, request: TurnRequest, _: Any) -> AsyncIterator[InterruptRequest]:
        question = "How many eggs?"
        yield InterruptRequest(InterruptKind.QUESTION, question, {"question": question}, identity="q", tool="ask_human")

    async def aclose(self) -> None:
        """Do nothing, because the turn has no resources to close."""


class LostAnswer:
    """Keeps back the answer of the cook to the first message, until the caller has died."""

    def __init__(self) -> None:
        self.given = Event()
        self.left = 1

    async def keep(self, request: Request, body: bytes) -> None:
        if self.left and b"SendMessage" in body:
            self.left -= 1
            self.given.set()
            while not await request.is_disconnected():  # noqa: ASYNC110 - the request has no event
                await asyncio.sleep(0.01)


def gateway(cook_url: str, lost: LostAnswer | None = None) -> Starlette:
    """Return a gateway to one agent. It passes requests on with the token that this agent accepts."""

    async def peers(_: Request) -> Response:
        return JSONResponse({"items": [COOK]})

    async def forward(request: Request) -> Response:
        headers = {"Authorization": "Bearer self", "Content-Type": "application/json", "A2A-Version": "1.0"}
        async with httpx.AsyncClient(verify=NO_TLS, base_url=cook_url, timeout=30) as http:
            path = f"/{request.path_params['path']}"
            body = await request.body()
            answer = await http.request(request.method, path, content=body, headers=headers)
        if lost is not None:
            await lost.keep(request, body)
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    return Starlette(
        routes=[
            Route("/v1/agents/team/echo/peers", peers),
            Route("/agents/team/cook/{path:path}", forward, methods=["GET", "POST"]),
        ]
    )


class Model:
    """The offline model, which asks other agents without waiting, and a record of the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = Event()
        """A request with a result of a background task is answered once this is set."""
        self.released.set()
        self._app = OfflineModel().app()

    def results(self) -> int:
        """Return the number of results of background tasks in the newest request. The model may repeat their text."""
        messages = json.loads(self.asked[-1])["messages"]
        return sum(message["role"] == "tool" and BEGUN in message["content"] for message in messages)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def heard() -> Any:
            message = await receive()
            if body := message.get("body"):
                self.asked.append(body.decode())
                while BEGUN in self.asked[-1] and not self.released.is_set():  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(0.01)
            return message

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name != b"content-length"]
                message = {**message, "headers": headers}
            elif "body" in message:
                body = message["body"].replace(b'{\\"agent\\":', b'{\\"wait\\": false, \\"agent\\":')
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, heard, told)


@pytest.fixture
def model_server(serve: Any) -> Iterator[tuple[Model, dict[str, Any]]]:
    model = Model()
    with serve(model) as port:
        url = f"http://127.0.0.1:{port}/v1"
        yield (
            model,
            {
                "name": "offline", "baseUrl": url, "contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30,
            },
        )  # fmt: skip


@pytest.fixture
def team(serve: Any, mounted: Any, model_server: Any) -> Any:
    """Return a context manager with the settings of an agent that reaches the cook through a gateway."""

    @contextmanager
    def settings(cook: Any, lost: LostAnswer | None = None) -> Iterator[dict[str, Any]]:
        mounted.layout.gateway_token_file.parent.mkdir(parents=True, exist_ok=True)
        mounted.layout.gateway_token_file.write_text("own-token")
        with serve(gateway(cook.url, lost)) as port:
            yield {"gateway": {"url": f"http://127.0.0.1:{port}"}, "model": model_server[1], "mcpServers": []}

    return settings


def answer(task: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"])


async def booked(house: Any, cook: Any, states: Any) -> None:
    """Wait until the cook has completed its only task."""
    async with asyncio.timeout(60):
        while not house.ledger:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)
    (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
    assert states(await cook.rested(task)) == "completed"


async def test_background_result_comes_with_the_next_message_once(agent, peer, team, model_server, house, states):
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say(LATER)
                assert states(begun) == "completed"
                assert "cook works on task" in answer(begun)
                await booked(house, cook, states)
                other = await guest.say("My dog is called Rex.")
                assert BEGUN not in str(model.asked), "another conversation gets no result"
                stranger = await guest.by("client:other").say("Hello there", contextId=begun["contextId"])
                assert BEGUN not in str(model.asked), "another caller gets no result"
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert (BEGUN in model.asked[-1], "A table for 4 is booked." in model.asked[-1]) == (True, True)
                again = await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert {states(each) for each in (other, stranger, told, again)} == {"completed"}
    assert model.results() == 1, "the result is in the conversation once"
    assert house.ledger == ["table for 4"]


@asynccontextmanager
async def stored(mounted: Any) -> AsyncIterator[SqliteDelegatedTasks]:
    database = Database(mounted.layout.memory / schema.FILE, schema.SCHEMA)
    try:
        yield SqliteDelegatedTasks(database)
    finally:
        await database.aclose()


async def test_background_result_survives_a_kill(agent_process, peer, team, model_server, house, states, mounted):
    """A process that is killed before it removes the task leaves a result that is in the conversation already."""
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER)
                assert states(begun) == "completed"
                await guest.kill()
            await booked(house, cook, states)
            async with stored(mounted) as tasks:
                (task,) = await tasks.of("client:default", begun["contextId"])
            async with agent_process(**settings) as guest:
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert "A table for 4 is booked." in model.asked[-1]
                await guest.kill()
            async with stored(mounted) as tasks:
                assert await tasks.of("client:default", begun["contextId"]) == []
                await tasks.put(task)
            async with agent_process(**settings) as guest:
                await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert states(told) == "completed"
    assert model.results() == 1
    async with stored(mounted) as tasks:
        assert await tasks.of("client:default", begun["contextId"]) == []


async def test_background_task_begins_once_despite_a_kill(agent_process, peer, team, model_server, house, states):
    """The process is killed after the cook has begun the task, and before the caller knows it."""
    model, _ = model_server
    lost = LostAnswer()
    async with peer() as cook:
        with team(cook, lost) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER, now=True)
                assert await asyncio.to_thread(lost.given.wait, 60)
                await guest.kill()
            await booked(house, cook, states)
            async with agent_process(**settings) as guest:
                ended = await guest.rested(begun)
                assert states(ended) == "completed"
                assert "cook works on task" in answer(ended)
                await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                await guest.say("What is my dog called?", contextId=begun["contextId"])
        (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
    assert task["id"] in answer(ended)
    assert house.ledger == ["table for 4"], "the cook has worked once"
    assert model.results() == 1, "the result is in the conversation once"


async def test_unfinished_background_task_delays_no_message(agent, peer, team, model_server, house, states):
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say('Ask the agent "cook" "Cook a dish of 3 portions"')
                early = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert states(early) == "completed"
                assert BEGUN not in model.asked[-1]
                house.kitchen.set()
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                await cook.rested(task)
                await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert "3 portions are ready." in model.asked[-1]
    assert model.results() == 1


async def test_failed_turn_keeps_the_task_that_asks(agent, peer, team, model_server, states):
    """The end of the agent waits for its cancellations, so the state of the task is final after it."""
    model, _ = model_server
    async with peer(turn=AskingCook()) as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say(LATER)
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                assert states(await cook.rested(task)) == "input-required"
                failed = await guest.say("Hello there [[fail:401]]", contextId=begun["contextId"])
                assert states(failed) == "failed"
            assert states(await cook.get(task)) == "input-required"
            async with agent(**settings) as guest:
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert states(told) == "completed"
            assert (model.results(), "How many eggs?" in model.asked[-1]) == (1, True)
        assert states(await cook.get(task)) == "canceled", "the model has seen the question and not answered"


async def test_resumed_turn_ends_the_task_that_asks(agent_process, peer, team, model_server, states, mounted):
    """The process is killed after the question has entered the conversation, and before it has recorded that."""
    model, _ = model_server
    async with peer(turn=AskingCook()) as cook:
        with team(cook) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER)
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                assert states(await cook.rested(task)) == "input-required"
                model.released.clear()
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"], now=True)
                async with asyncio.timeout(60):
                    while BEGUN not in model.asked[-1]:  # noqa: ASYNC110 - it looks from outside
                        await asyncio.sleep(0.01)
                await guest.kill()
            async with stored(mounted) as tasks:
                assert len(await tasks.of("client:default", begun["contextId"])) == 1
            model.released.set()
            async with agent_process(**settings) as guest:
                assert states(await guest.rested(told)) == "completed"
                async with asyncio.timeout(60):
                    while states(await cook.get(task)) != "canceled":  # noqa: ASYNC110 - it looks from outside
                        await asyncio.sleep(0.02)
    async with stored(mounted) as tasks:
        assert await tasks.of("client:default", begun["contextId"]) == []
