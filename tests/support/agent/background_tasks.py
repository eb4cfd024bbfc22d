"""A gateway between an agent and the agent `cook`, and a model for both."""

import asyncio
import json
from threading import Event
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until

from fleetwright_cli.offline.model import OfflineModel

COOK = {"namespace": "team", "name": "cook", "description": "Books tables.", "phase": "Running"}


BEGUN = "which was begun earlier"


LATER = 'Ask the agent "cook" "Book table for 4"'


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


def build_gateway(cook_url: str, lost: LostAnswer | None = None) -> Starlette:
    """Return a gateway to one agent. It passes requests on with the token that this agent accepts."""

    async def peers(_: Request) -> Response:
        return JSONResponse({"items": [COOK]})

    async def forward(request: Request) -> Response:
        headers = {"Authorization": "Bearer self", "Content-Type": "application/json", "A2A-Version": "1.0"}
        async with httpx.AsyncClient(verify=NO_TLS, base_url=cook_url, timeout=ceiling()) as http:
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


class BackgroundModel:
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
        async def record_request() -> Any:
            message = await receive()
            if body := message.get("body"):
                self.asked.append(body.decode())
                while BEGUN in self.asked[-1] and not self.released.is_set():  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(0.01)
            return message

        async def rewrite_reply(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [(name, value) for name, value in message["headers"] if name != b"content-length"]
                message = {**message, "headers": headers}
            elif "body" in message:
                body = message["body"].replace(b'{\\"agent\\":', b'{\\"wait\\": false, \\"agent\\":')
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, record_request, rewrite_reply)


async def await_booking(house: Any, cook: Any, states: Any) -> None:
    """Wait until the cook has completed its only task."""
    await await_until(lambda: house.ledger, "the cook books a table")
    (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
    assert states(await cook.rested(task)) == "completed"
