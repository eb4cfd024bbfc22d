"""Executors that lie: the runner bounds and checks all that they send."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.workspace import LocalWorkspace

from fleetwright_workspace.executor.frames import END, STDOUT, frame

GOOD_END = {"exit": 0, "signal": None, "timed_out": False, "stopped": ""}


class LyingExecutor:
    """Answers every request with the same bytes."""

    def __init__(self, path: Path) -> None:
        self.answer = b""
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(1 << 20):
                    connection.sendall(self.answer)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def lying(own_workspace: LocalWorkspace, tmp_path: Path) -> Iterator[LyingExecutor]:
    own_workspace.executor.terminate()
    own_workspace.executor.wait()
    executor = LyingExecutor(tmp_path / "socket")
    yield executor
    executor.close()


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(b"", {"lost": True}, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", {"lost": True}, id="another protocol"),
        pytest.param(b"o\xff\xff\xff\xff" + b"x" * 100, {"lost": True}, id="huge frame"),
        pytest.param(frame(STDOUT, b"text"), {"lost": True}, id="no end"),
        pytest.param(frame(END, b"{}"), {"lost": True}, id="end without fields"),
        pytest.param(frame(END, b"[" * 60_000), {"lost": True}, id="deep JSON"),
        pytest.param(frame(END, json.dumps({**GOOD_END, "exit": 10**30}).encode()), {"lost": True}, id="huge exit"),
        pytest.param(frame(END, json.dumps({**GOOD_END, "signal": "x" * 99}).encode()), {"lost": True}, id="signal"),
        pytest.param(frame(END, json.dumps({**GOOD_END, "stopped": [1]}).encode()), {"lost": True}, id="list"),
    ],
)
def test_wrong_answers_are_a_lost_executor(
    own_workspace: LocalWorkspace, lying: LyingExecutor, answer: bytes, wanted: dict[str, Any]
) -> None:
    lying.answer = answer
    assert own_workspace.run("true")[-1] == wanted


def test_end_is_copied_field_by_field(own_workspace: LocalWorkspace, lying: LyingExecutor) -> None:
    lying.answer = frame(STDOUT, b"ok") + frame(END, json.dumps({**GOOD_END, "stdout_bytes": 5, "extra": "x"}).encode())
    end = own_workspace.run("true")[-1]["end"]
    assert (end["stdout_bytes"], "extra" in end) == (2, False)
