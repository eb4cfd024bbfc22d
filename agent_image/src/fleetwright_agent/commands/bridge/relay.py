"""Relays messages between an MCP session over HTTP and the stdio server process of this session.

Each session gets a separate process, because stdio servers expect a single client. The process starts with the first
message, so a refused request, such as a GET without a session, costs no process. It ends with the session.
If the process dies earlier, requests without an answer get an error, and the client's next session starts a new
process. This module does not interpret tools, prompts or any other part of MCP.
"""

import contextlib
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

_log = logging.getLogger(__name__)
_From = MemoryObjectReceiveStream[SessionMessage | Exception]
_To = MemoryObjectSendStream[SessionMessage]


class Relay(Server[Any, Any]):
    """The server object that the SDK's session manager runs for each session."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__("bridge")
        self._process = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(environment))

    async def run(self, read_stream: Any, write_stream: Any, *_: Any, **__: Any) -> None:
        """Relay until the client's session or the process ends."""
        first = await _receive_first(read_stream)
        if first is None:
            return
        try:
            async with stdio_client(self._process, errlog=sys.stderr) as (output, input_):
                _log.info("a session began")
                await _Conversation(first, client=(read_stream, write_stream), process=(output, input_)).run()
        except OSError as error:
            _log.error("the server cannot be started: %s", error.strerror)
            if isinstance(first.message.root, JSONRPCRequest):
                await write_stream.send(_build_error(first.message.root.id, "the server's process cannot be started"))
        _log.info("a session ended")


async def _receive_first(from_client: _From) -> SessionMessage | None:
    """Return the first message of the client, or None if its session ends before. The transport answers the errors."""
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for message in from_client:
            if not isinstance(message, Exception):
                return message
    return None


class _Conversation:
    def __init__(self, first: SessionMessage, *, client: tuple[_From, _To], process: tuple[_From, _To]) -> None:
        self._first = first
        self._from_client, self._to_client = client
        self._from_process, self._to_process = process
        self._unanswered: dict[str | int, None] = {}

    async def run(self) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(self._down)
            await self._up()
            # After the end of the process, no open request can get an answer.
            both.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await self._answer_the_rest()

    async def _down(self) -> None:
        """Relay messages from the client to the process."""
        try:
            await self._send_to_process(self._first)
            async for message in self._from_client:
                if isinstance(message, Exception):
                    continue  # The transport has already answered the client.
                await self._send_to_process(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # The process is ending; `_up` handles its end.
        finally:
            # The end of the client's session ends the process.
            await self._to_process.aclose()
            await self._from_process.aclose()

    async def _send_to_process(self, message: SessionMessage) -> None:
        if isinstance(message.message.root, JSONRPCRequest):
            self._unanswered[message.message.root.id] = None
        await self._to_process.send(SessionMessage(message.message))

    async def _up(self) -> None:
        """Relay messages from the process to the client."""
        try:
            async for message in self._from_process:
                if isinstance(message, Exception):
                    _log.warning("the server wrote text that is not an MCP message to its standard output")
                    continue
                if isinstance(message.message.root, JSONRPCResponse | JSONRPCError):
                    self._unanswered.pop(message.message.root.id, None)
                await self._to_client.send(SessionMessage(message.message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # The client has disconnected.

    async def _answer_the_rest(self) -> None:
        for identity in list(self._unanswered):
            await self._to_client.send(_build_error(identity, "the server's process ended before it answered"))


def _build_error(identity: str | int, message: str) -> SessionMessage:
    fault = ErrorData(code=INTERNAL_ERROR, message=message)
    return SessionMessage(JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=identity, error=fault)))
