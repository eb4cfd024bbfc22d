"""The HTTP server: one thread for each connection, with a bounded number of them."""

from __future__ import annotations

import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.root import os_error
from fleetwright_workspace.runner.calls import FileCalls
from fleetwright_workspace.runner.connection_pool import BodyMemory, ConnectionPool
from fleetwright_workspace.runner.execution import Execution
from fleetwright_workspace.runner.fields import Fields
from fleetwright_workspace.runner.http_message import (
    BODY_SECONDS,
    COMMAND_LIMIT,
    HttpConnection,
    HttpError,
    RequestHead,
)
from fleetwright_workspace.runner.tokens import AcceptedTokens

_STACK = 512 * 1024
_BACKLOG = 64
_ACCEPT_SECONDS = 1.0
_DRAIN_TICK_SECONDS = 0.01
_NAMES = {
    400: "bad_request", 401: "unauthorized", 404: "not_found", 405: "bad_request", 408: "bad_request",
    411: "bad_request", 413: "too_large", 431: "too_large",
}  # fmt: skip


class RunnerServer:
    def __init__(self, calls: FileCalls, execution: Execution, tokens: AcceptedTokens) -> None:
        self._calls = calls
        self._execution = execution
        self._tokens = tokens
        self._pool = ConnectionPool()
        self._bodies = BodyMemory()
        self._counting = threading.Lock()
        self._calls_now = 0

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is closed. Further clients wait while all threads are busy."""
        threading.stack_size(_STACK)
        listener.listen(_BACKLOG)
        # A signal that arrives just before `accept` would otherwise wait for the next connection.
        listener.settimeout(_ACCEPT_SECONDS)
        while True:
            self._pool.wait()
            try:
                stream, _ = listener.accept()
            except OSError:
                self._pool.cancel()
                if listener.fileno() < 0:
                    return
                continue
            self._pool.enter(stream)
            threading.Thread(target=self._converse, args=(stream,), daemon=True).start()

    def _converse(self, stream: socket.socket) -> None:
        connection = HttpConnection(stream)
        try:
            with stream:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._answer(connection):
                    pass
        except OSError:
            pass  # the client is gone
        finally:
            self._pool.leave(stream, is_trusted=connection.is_trusted)

    def _answer(self, connection: HttpConnection) -> bool:
        """Answer one request. Return whether the connection can be used again."""
        try:
            head = connection.read_head()
            if head is None:
                return False
            return self._route(connection, head)
        except HttpError as error:
            connection.send_json(error.status, _error(_NAMES[error.status], str(error)), keep_alive=False)
            return False

    def _route(self, connection: HttpConnection, head: RequestHead) -> bool:
        if head.path == "/healthz" and head.method == "GET":
            if head.headers.get("content-length", "0") != "0" or "transfer-encoding" in head.headers:
                raise HttpError(400, "GET /healthz has no body")
            keep_alive = head.keep_alive and connection.is_trusted
            connection.send_json(200, {"ready": True}, keep_alive=keep_alive)
            return keep_alive
        if not self._tokens.accepts(head.bearer):
            # The body is not read before the client is known.
            raise HttpError(401, "send one of the runner's tokens as a bearer token")
        if not connection.is_trusted:
            self._pool.trust(connection.stream)
            connection.is_trusted = True
        if head.path == "/v1/info" and head.method == "GET":
            connection.read_body(head, connection.body_length(head))
            info = {**self._calls.info(), "executor": self._execution.is_available()}
            connection.send_json(200, info, keep_alive=head.keep_alive)
            return head.keep_alive
        call = self._calls.table.get(head.path)
        if call is None and head.path != "/v1/exec":
            raise HttpError(404, "there is no such call")
        if head.method != "POST":
            raise HttpError(405, "use POST")
        if call is None:
            body = connection.read_body(head, connection.body_length(head, limit=COMMAND_LIMIT))
            status, value = _guarded(lambda: self._execution.run(connection, Fields(body)))
            if value is None:
                return False
        else:
            length = connection.body_length(head)
            with self._bodies.reserved(length, seconds=BODY_SECONDS) as is_free:
                if not is_free:
                    raise HttpError(408, "the bodies of other requests use all memory; try again later")
                status, value = self._call(call, connection.read_body(head, length))
        connection.send_json(status, value, keep_alive=head.keep_alive)
        return head.keep_alive

    def drain(self, seconds: float) -> None:
        """Wait until no call changes a file. Commands are not waited for."""
        deadline = time.monotonic() + seconds
        while self._calls_now and time.monotonic() < deadline:
            time.sleep(_DRAIN_TICK_SECONDS)

    def _call(self, call: Callable[[Fields], dict[str, object]], body: bytes) -> tuple[int, dict[str, object] | None]:
        with self._counting:
            self._calls_now += 1
        try:
            return _guarded(lambda: call(Fields(body)))
        finally:
            with self._counting:
                self._calls_now -= 1


def _guarded(call: Callable[[], dict[str, object] | None]) -> tuple[int, dict[str, object] | None]:
    """Return the status and the response of a call. An unexpected error never shows its message to the caller."""
    try:
        return 200, call()
    except CallError as error:
        return error.status, _error(error.code, str(error), **error.details)
    except OSError as error:
        found = os_error(error, "the workspace")
        return found.status, _error(found.code, str(found))
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return 500, _error("internal", "the runner failed; its log has the reason")


def _error(code: str, message: str, **details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message}, **details}
