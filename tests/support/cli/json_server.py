"""An HTTP server that answers every request with the same JSON object, and records the requests."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    """The last value of each header."""
    header_lines: list[tuple[str, str]]
    body: Any
    """The parsed JSON; None without a body."""


class JsonServer(ThreadingHTTPServer):
    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.received: list[ReceivedRequest] = []


class _Handler(BaseHTTPRequestHandler):
    server: JsonServer

    def do_GET(self) -> None:
        self._answer(None)

    def do_PATCH(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *args: object) -> None:
        """Write nothing to standard error."""

    def _answer(self, body: Any) -> None:
        lines = self.headers.items()
        self.server.received.append(ReceivedRequest(self.path, dict(lines), lines, body))
        answer = json.dumps(self.server.answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def serve_json(answer: Mapping[str, Any]) -> Iterator[JsonServer]:
    with JsonServer(answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
