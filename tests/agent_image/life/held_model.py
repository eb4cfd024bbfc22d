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
    """A model whose replies to prompts with at least `tool_results` results of tools wait for an event."""

    def __init__(self, tool_results: int) -> None:
        self.released = Event()
        self._tool_results = tool_results
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
        if sum(each["role"] == "tool" for each in messages) >= self._tool_results:
            await asyncio.to_thread(self.released.wait, _MOST_SECONDS)
        read = [{"type": "http.request", "body": body}]

        async def again() -> Any:
            return read.pop() if read else await receive()

        await self._app(scope, again, send)


@contextmanager
def held_model(serve: Any, *, tool_results: int) -> Iterator[tuple[HeldModel, dict[str, Any]]]:
    """Serve such a model. Yield it with the settings of an agent.

    The end releases a held reply even if the test fails, because the server waits for the thread that holds it.
    """
    model = HeldModel(tool_results)
    with serve(model) as port:
        sizes = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        try:
            yield model, {"model": {"name": "offline", "baseUrl": f"http://127.0.0.1:{port}/v1", **sizes}}
        finally:
            model.released.set()
