"""An agent of A2A 1.0 without a network, which answers calls of older versions through the translator."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.gateway.served_gateway import CARD

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.proxy.forwarder import OutboundRequest
from fleetwright_gateway.proxy.translation.translator import Translator

INTERNAL_NAMES = ("TASK_STATE_", "ROLE_", "fleetwright_", "protobuf", "pydantic", "fieldOfALaterVersion")


class Agent:
    """Takes the place of the forwarder, and answers each call in A2A 1.0."""

    def __init__(self, *answers: Any, status: int = 200, answer: Callable[[Any], Any] | None = None) -> None:
        """Args: `answers` are the response, or the events of a stream; `answer` creates the response from the call."""
        self._answers = answers
        self._status = status
        self._answer = answer
        self.received: list[Any] = []

    @asynccontextmanager
    async def opened(self, request: OutboundRequest) -> AsyncIterator[Any]:
        call = json.loads(request.body)
        status, is_stream = self._status, call["method"] == "SendStreamingMessage"
        if call["method"] == "ListTasks":  # The translator searches for the id that a caller of 0.1 has chosen.
            status, answers = 200, ({"result": {"tasks": []}},)
        else:
            self.received.append(call)
            answers = self._answers if self._answer is None else (self._answer(call),)
        lines = [json.dumps({"jsonrpc": "2.0", "id": call["id"], **each}) for each in answers]
        body = "".join(f"data: {line}\n\n" for line in lines) if is_stream else lines[0]
        headers = {"Content-Type": "text/event-stream"} if is_stream else {}
        content = SimpleNamespace(iter_any=lambda: pieces(body.encode()))
        yield SimpleNamespace(status=status, headers=headers, raw_headers=[], content=content, body=body.encode())

    async def read(self, answer: Any) -> bytes:
        return bytes(answer.body)

    def call(self, version: str, method: str, params: Any, *, request_id: str = "r") -> tuple[int, list[Any]]:
        """Send a call of an older version through the translator. Return the status, and each result or error."""
        return asyncio.run(self._called(version, method, params, request_id))

    async def _called(self, version: str, method: str, params: Any, request_id: str) -> tuple[int, list[Any]]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.Event().wait()

        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()
        request = OutboundRequest(method="POST", url="http://callee/a2a", headers=[], body=body, idle_seconds=0)
        scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": [(b"a2a-version", version.encode())]}
        forwarder: Any = self
        translator = Translator(forwarder, clock=Clock(now_ns=lambda: 0), on_cut=lambda: None)
        await translator.forward(request, scope, receive, send, caller="ada", agent="uid", card=CARD, extra=())
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
        assert not [name for name in INTERNAL_NAMES if name in text], text
        is_stream = dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line] if is_stream else [text]
        documents = [json.loads(line, parse_constant=pytest.fail) for line in lines]
        assert all(each.keys() - {"result"} in ({"jsonrpc", "id"}, {"jsonrpc", "id", "error"}) for each in documents)
        return sent[0]["status"], [each["result"] if "result" in each else each["error"] for each in documents]


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body
