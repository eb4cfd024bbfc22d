"""An offline model that holds some of its replies, so that a test can kill the agent while it waits for one."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from fleetwright_cli.offline.model import OfflineModel

_MOST_SECONDS = 60


class HeldModel:
    """A model whose replies to prompts with at least `tool_results` results of tools wait for an event.

    `pieces` is the number of pieces of a reply that are sent before it waits.
    """

    def __init__(self, tool_results: int, pieces: int = 0) -> None:
        self.released = Event()
        self._tool_results = tool_results
        self._pieces = pieces
        self._app = OfflineModel().app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        messages = json.loads(body)["messages"] if body else []
        is_held = sum(each["role"] == "tool" for each in messages) >= self._tool_results
        read = [{"type": "http.request", "body": body}]
        sent = 0

        async def again() -> Any:
            return read.pop() if read else await receive()

        async def held(message: Any) -> None:
            nonlocal sent
            if is_held and sent == self._pieces:
                await asyncio.to_thread(self.released.wait, _MOST_SECONDS)
            sent += message["type"] == "http.response.body"
            await send(message)

        await self._app(scope, again, held)


@contextmanager
def held_model(serve: Any, *, tool_results: int, pieces: int = 0) -> Iterator[tuple[HeldModel, dict[str, Any]]]:
    """Serve such a model. Yield it with the settings of an agent.

    The end releases a held reply even if the test fails, because the server waits for the thread that holds it.
    """
    model = HeldModel(tool_results, pieces)
    with serve(model) as port:
        sizes = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        try:
            yield model, {"model": {"name": "offline", "baseUrl": f"http://127.0.0.1:{port}/v1", **sizes}}
        finally:
            model.released.set()
