"""What `fleetwright say` prints of the texts that an agent chooses."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli.dev_run import run_fleetwright

pytestmark = pytest.mark.process

HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x1b]8;;http://evil.example\x1b\\c\x1b[2Jd\x9b1me\u202ef\u2066g\rh"
CLEAN = "a]52;c;ZXZpbA==b]8;;http://evil.example\\c[2Jd1mefgh"


@contextmanager
def served(answer: Mapping[str, Any]) -> Iterator[str]:
    """Serve an agent that gives one answer to every call, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            interface = {"url": "http://agent/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            self._reply({"name": "desk", "supportedInterfaces": [interface]})

        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply({"jsonrpc": "2.0", "id": call["id"], **answer})

        def _reply(self, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def build_task(state: str, *, message: str = "", answer: str = "", **more: str) -> dict[str, Any]:
    said = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": message}]}} if message else {}
    artifacts = [{"artifactId": "a", "parts": [{"text": answer}]}] if answer else []
    status = {"state": f"TASK_STATE_{state}", **said}
    return {"result": {"task": {"id": "t", "contextId": "c", "status": status, "artifacts": artifacts, **more}}}


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        pytest.param(build_task("COMPLETED", answer=HOSTILE), "stdout", id="the answer of the model"),
        pytest.param(build_task("INPUT_REQUIRED", message=HOSTILE), "stdout", id="a question"),
        pytest.param(build_task("INPUT_REQUIRED", id=HOSTILE), "stdout", id="the id of the task"),
        pytest.param(build_task("COMPLETED", contextId=HOSTILE), "stdout", id="the id of the conversation"),
        pytest.param({"error": {"code": -32603, "message": HOSTILE}}, "stderr", id="an error of the server"),
    ],
)
def test_say_removes_control_characters(tmp_path: Path, answer: Mapping[str, Any], stream: str) -> None:
    (tmp_path / "token").write_text("t")
    with served(answer) as url:
        words = ("say", "--url", url, "--token-file", str(tmp_path / "token"), "Hello")
        ended = run_fleetwright(*words, environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    printed = getattr(ended, stream)
    assert CLEAN in printed, ended
    assert not {*"\x1b\x07\x9b\r\u202e\u2066"} & {*ended.stdout, *ended.stderr}
