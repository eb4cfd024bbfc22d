"""Fixtures for the dialects: scripted events, raw calls, and an agent as a child process."""

import asyncio
import base64
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent, TaskState
from e2e.cluster.ports import free_ports
from tests.support.agent.fork_server import STEERED_AGENT, ForkedProcess, ForkServer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import wait_until

from fleetwright_a2a.task_events import Event, agent_message, status_event
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.server.executors.port import Emit, TaskJob

AT_NS = 1_743_612_809_301_828_000


@dataclass
class WrittenWork:
    """The scripted events of one message: the events at the start and the events at the end."""

    job: TaskJob
    emit: Emit
    shown: Sequence[Event]
    last: Sequence[Event]

    async def run(self) -> Sequence[Event]:
        for event in self.shown:
            self.emit(event)
        if not self.last:
            await asyncio.Event().wait()
        return self.last

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return [_status(self.job, outcome.state, outcome.sentence)]


def _status(job: TaskJob, state: TaskState, text: str = "") -> Event:
    message = agent_message(text, message_id="said") if text else None
    return status_event(job.task_id, job.context_id, state, at_ns=AT_NS, message=message)


def _answer(job: TaskJob, text: str) -> Event:
    made = Artifact(artifact_id=f"{job.task_id}-answer", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id=job.task_id, context_id=job.context_id, artifact=made)


@dataclass
class WrittenExecutor:
    """A scripted executor: `ask: <question>` pauses, `say: <progress>` reports progress, and `wait` never ends.

    Any other line is an answer.
    """

    lines: dict[str, Sequence[str]]
    """The script for each text of a caller."""
    jobs: list[TaskJob] = field(default_factory=list)

    def begin(self, job: TaskJob, emit: Emit) -> WrittenWork:
        self.jobs.append(job)
        shown: list[Event] = []
        for line in self.lines[job.message.parts[0].text]:
            kind, _, text = line.partition(": ")
            if kind == "ask":
                return WrittenWork(job, emit, shown, [_status(job, TaskState.TASK_STATE_INPUT_REQUIRED, text)])
            if kind == "say":
                shown.append(_status(job, TaskState.TASK_STATE_WORKING, text))
            elif kind == "wait":
                return WrittenWork(job, emit, shown, [])
            else:
                end = _status(job, TaskState.TASK_STATE_COMPLETED)
                return WrittenWork(job, emit, shown, [_answer(job, line), end])
        raise AssertionError("a script has an end")


@pytest.fixture
def written() -> type[WrittenExecutor]:
    return WrittenExecutor


@dataclass
class Raw:
    """A caller that sends no header except its credential."""

    http: httpx.AsyncClient

    async def call(self, method: str, params: Any, *, request_id: Any = 1, **headers: str) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        response = await self.http.post("/a2a", json=body, headers=headers)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def stream(self, method: str, params: Any, *, request_id: Any = 1) -> list[str]:
        """Yield the JSON documents of a stream as text."""
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        async with self.http.stream("POST", "/a2a", content=json.dumps(body)) as response:
            assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
            return [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: ")]


@pytest.fixture
def raw() -> Callable[..., Any]:
    @asynccontextmanager
    async def connect(door: Any, owner: str = "client:default") -> AsyncIterator[Raw]:
        async with door.http(owner) as http:
            del http.headers["A2A-Version"]
            yield Raw(http)

    return connect


KEYS = base64.urlsafe_b64encode(bytes(range(32))).decode()
STATES = {"x": "COMPLETED", "hang": "WORKING", "ask Sure?": "INPUT_REQUIRED", "fail": "FAILED"}
"""The text of a message for each resulting task state."""
AUTHORIZED = {"Authorization": "Bearer token-of-default"}


@dataclass
class RunningAgent:
    """A running agent process with tasks in every state, and its log."""

    process: ForkedProcess
    root: Path
    http: httpx.Client
    ops: httpx.Client
    output: Path
    hook: str
    tasks: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    page_token: str = ""
    _read: int = 0
    _count: Iterator[int] = field(default_factory=itertools.count)

    def call(self, method: str, params: dict[str, Any], version: str = "1.0", **headers: str) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = self.http.post("/a2a", json=body, headers={"A2A-Version": version, **headers}, timeout=ceiling())
        answer: dict[str, Any] = response.json()
        return answer

    def settle(self) -> None:
        """Create 1.0 tasks in every state with push receivers, a task of another caller, and a 0.1 task."""
        said = [self._say(text) for text in STATES]
        said.append(self._say("x", Authorization="Bearer token-of-other"))
        said.append(self._say("x", contextId=said[1]["contextId"]))  # waits for the task that hangs
        self.call("CancelTask", {"id": (gone := self._say("hang"))["id"]})
        chosen = f"chosen-{next(self._count)}"
        spoken = {"role": "user", "parts": [{"type": "text", "text": "ask Sure?"}]}
        push = {"url": self.hook, "token": "t"}
        self.call("tasks/send", {"id": chosen, "message": spoken, "pushNotification": push}, "0.1")
        self.tasks = [*(task["id"] for task in [*said, gone]), chosen, "nobody"]
        self.contexts = [*(task["contextId"] for task in said), "nowhere"]
        self.page_token = self.call("ListTasks", {"pageSize": 1})["result"]["nextPageToken"]

    def _say(self, text: str, *, Authorization: str = AUTHORIZED["Authorization"], **more: str) -> dict[str, Any]:  # noqa: N803 - a header
        message = {"messageId": f"settled-{next(self._count)}", "role": "ROLE_USER", "parts": [{"text": text}], **more}
        push = {"id": "c", "url": self.hook, "token": "t"}
        configuration = {"returnImmediately": text == "hang" or bool(more), "taskPushNotificationConfig": push}
        params = {"message": message, "configuration": configuration}
        answer = self.call("SendMessage", params, Authorization=Authorization)
        task: dict[str, Any] = answer["result"]["task"]
        state = task["status"]["state"].removeprefix("TASK_STATE_")
        assert state in {STATES[text], "SUBMITTED", "WORKING"}, answer
        return task

    def cancel_all(self) -> None:
        """Cancel the running tasks, because a caller may have only a limited number at once."""
        for state in ("TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"):
            for task in self.call("ListTasks", {"status": state, "pageSize": 100})["result"]["tasks"]:
                self.call("CancelTask", {"id": task["id"]})

    def check(self) -> None:
        """Check that the process is alive and has logged nothing unexpected."""
        assert self.process.poll() is None, "the agent process exited"
        with self.output.open("rb") as file:
            file.seek(self._read)
            news = file.read()
        self._read += len(news)
        assert b"Traceback" not in news, news.decode()
        assert b'"level": "error"' not in news, news.decode()


@pytest.fixture(scope="module")
def run_agent(
    fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory, mount_below: Any
) -> Callable[..., Any]:
    """Return a function that starts an agent process with a push receiver. The process must stay healthy to the end."""

    @contextmanager
    def run() -> Iterator[RunningAgent]:
        root = tmp_path_factory.mktemp("agent")
        ports = free_ports()
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        with (
            _receiver() as receiver,
            httpx.Client(verify=NO_TLS, base_url=urls[0], headers=AUTHORIZED, timeout=ceiling()) as http,
            httpx.Client(verify=NO_TLS, base_url=urls[1], timeout=ceiling()) as ops,
        ):
            push = {"keyFile": "push/keys", "allowedHosts": [{"host": "127.0.0.1", "port": receiver}]}
            layout = mount_below(root, push=push).layout
            card = json.loads(layout.card_file.read_text())
            card["supportedInterfaces"].append({**card["supportedInterfaces"][0], "protocolVersion": "0.3"})
            layout.extended_card_file.write_text(json.dumps(card))
            keys = layout.configuration / "push/keys"
            keys.parent.mkdir()
            keys.write_text(KEYS)
            output = root / "output"
            words = [str(root), *map(str, ports)]
            process = fork_server.start(words, entry=STEERED_AGENT, log=str(output), errors=str(output))
            try:
                _await_ready(ops, process)
                yield RunningAgent(process, root, http, ops, output, f"http://127.0.0.1:{receiver}/hook")
                assert ops.get("/healthz").text == "ok\n"
            finally:
                process.kill()
                process.wait_blocking()

    return run


def _await_ready(ops: httpx.Client, process: ForkedProcess) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, "the agent process exited"
        with suppress(httpx.TransportError):
            return ops.get("/readyz").status_code == 200
        return False

    wait_until(is_ready, "the agent is ready")


@contextmanager
def _receiver() -> Iterator[int]:
    """Start a receiver that accepts every notification, and yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
