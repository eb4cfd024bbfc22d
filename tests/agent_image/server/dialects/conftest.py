"""What the tests of the dialects share: work that a test writes down as events, and raw calls without a version."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent, TaskState

from fleetwright_agent.server.events import Event, agent_message, status_event
from fleetwright_agent.server.work import Emit, Job, Outcome

AT_NS = 1_743_612_809_301_828_000


@dataclass
class WrittenWork:
    """What one message leads to: events that are shown at once, and those it ends with."""

    job: Job
    emit: Emit
    shown: Sequence[Event]
    last: Sequence[Event]

    async def run(self) -> Sequence[Event]:
        for event in self.shown:
            self.emit(event)
        return self.last

    def cut(self, outcome: Outcome) -> Sequence[Event]:
        return [_status(self.job, outcome.state, outcome.sentence)]


def _status(job: Job, state: TaskState, text: str = "") -> Event:
    message = agent_message(text, message_id="said") if text else None
    return status_event(job.task_id, job.context_id, state, at_ns=AT_NS, message=message)


def _answer(job: Job, text: str) -> Event:
    made = Artifact(artifact_id=f"{job.task_id}-answer", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id=job.task_id, context_id=job.context_id, artifact=made)


@dataclass
class WrittenExecutor:
    """`ask: <question>` pauses, `say: <progress>` shows progress, everything else is an answer."""

    lines: dict[str, Sequence[str]]
    """By what the caller says."""
    jobs: list[Job] = field(default_factory=list)

    def begin(self, job: Job, emit: Emit) -> WrittenWork:
        self.jobs.append(job)
        shown: list[Event] = []
        for line in self.lines[job.message.parts[0].text]:
            kind, _, text = line.partition(": ")
            if kind == "ask":
                return WrittenWork(job, emit, shown, [_status(job, TaskState.TASK_STATE_INPUT_REQUIRED, text)])
            if kind == "say":
                shown.append(_status(job, TaskState.TASK_STATE_WORKING, text))
            else:
                end = _status(job, TaskState.TASK_STATE_COMPLETED)
                return WrittenWork(job, emit, shown, [_answer(job, line), end])
        raise AssertionError("a script has an end")


@pytest.fixture
def written() -> type[WrittenExecutor]:
    return WrittenExecutor


@dataclass
class Raw:
    """A caller that knows no header but its credential."""

    http: httpx.AsyncClient

    async def call(self, method: str, params: Any, *, request_id: Any = 1, **headers: str) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        response = await self.http.post("/a2a", json=body, headers=headers)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def stream(self, method: str, params: Any, *, request_id: Any = 1) -> list[str]:
        """The documents of a stream, as text."""
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
