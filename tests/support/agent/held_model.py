"""An offline model that holds some of its replies, so that a test can kill the agent while it waits for one."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from tests.support.machine import ceiling
from tests.support.waiting import await_until

from fleetwright_cli.offline.model import OfflineModel


@dataclass
class HeldModel:
    """A model whose replies to some prompts wait for the event `released`."""

    tool_results: int = 0
    """The replies to prompts with at least this number of results of tools wait."""
    pieces: int = 0
    """The number of pieces of a reply that are sent before it waits."""
    texts: Sequence[str] = ("",)
    """The newest message of the user in these prompts contains one of the texts."""
    released: Event = field(default_factory=Event)
    held: int = 0
    """The number of replies that have waited."""
    requests: int = 0
    """The number of calls of the model."""

    def __post_init__(self) -> None:
        self._app = OfflineModel().app()

    async def wait_until_holding(self, replies: int = 1) -> None:
        """Wait until this number of replies has begun to wait."""
        await await_until(
            lambda: self.held >= replies, f"the model holds {replies} replies", shown=lambda: f"{self.held} replies"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.requests += bool(body)
        is_held = bool(body) and self._holds(json.loads(body)["messages"])
        read = [{"type": "http.request", "body": body}]
        sent, has_waited = 0, False

        async def replay_body() -> Any:
            return read.pop() if read else await receive()

        async def hold_reply(message: Any) -> None:
            nonlocal sent, has_waited
            if is_held and sent == self.pieces and not has_waited:
                has_waited = True
                self.held += 1
                await asyncio.to_thread(self.released.wait, ceiling())
            sent += message["type"] == "http.response.body"
            await send(message)

        await self._app(scope, replay_body, hold_reply)

    def _holds(self, messages: Sequence[dict[str, Any]]) -> bool:
        said = [str(each["content"]) for each in messages if each["role"] == "user"]
        results = sum(each["role"] == "tool" for each in messages)
        return results >= self.tool_results and any(text in said[-1] for text in self.texts if said)


@contextmanager
def serve_held_model(
    serve: Callable[..., Any], *, tool_results: int, pieces: int = 0, texts: Sequence[str] = ("",)
) -> Iterator[tuple[HeldModel, dict[str, Any]]]:
    """Serve such a model. Yield it with the settings of an agent.

    The end releases a held reply even if the test fails, because the server waits for the thread that holds it.
    """
    model = HeldModel(tool_results, pieces, texts)
    with serve(model) as port:
        sizes = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": int(ceiling())}
        try:
            yield model, {"model": {"name": "offline", "baseUrl": f"http://127.0.0.1:{port}/v1", **sizes}}
        finally:
            model.released.set()
