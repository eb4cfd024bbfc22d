"""Which prompts one check sends, with a real task log and fakes of the other parts."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import MessageToDict
from tests.support.agent.task_values import COMPLETED, WAITING, claim, ended, new

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import MemoryFull
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.prompts.prompt_scheduler import PromptScheduler
from fleetwright_agent.server.tasks.active_task import ActiveTask, ignore_event
from fleetwright_agent.server.tasks.new_task import Origin, new_task
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import AcceptedClaim, EventRecord, StoredTask

OWN = "agent:team/echo"
EVERY = 600


@dataclass
class FakeAcceptor:
    """Accepts messages into the log, or raises an error."""

    log: MemoryTaskLog
    error: Exception | None = None
    taken: list[tuple[str, SendMessageRequest]] = field(default_factory=list)
    started: int = 0

    async def take(self, owner: str, request: SendMessageRequest, *, dedup_key: str | None) -> Any:
        if self.error:
            raise self.error
        task = new_task(request, Origin(None, (), frozenset()), at_ns=1)
        answer = await self.log.accept(claim(task.id, owner=owner), task, at_ns=1, dedup_key=dedup_key)
        assert isinstance(answer, AcceptedClaim)
        self.taken.append((owner, request))
        stored = StoredTask(n=answer.n, owner=owner, seq=1, busy=True, task=task)
        return ActiveTask(stored, log=self.log, clock=Clock(), on_event=ignore_event), self._start

    def _start(self) -> None:
        self.started += 1


@dataclass
class FakeAccounting:
    is_used_up: bool = False
    error: Exception | None = None

    async def look(self) -> None:
        if self.error:
            raise self.error

    def refuses_tasks(self) -> bool:
        return self.is_used_up


class SchedulerFixture:
    """A scheduler with its parts. The agent is ready, and has no task."""

    def __init__(self, config: AgentConfig, log: MemoryTaskLog | None = None) -> None:
        self.now = 0.0
        self.log = log or MemoryTaskLog()
        self.running: list[str] = []
        self.acceptor = FakeAcceptor(self.log)
        self.accounting = FakeAccounting()
        activity = TaskActivity(Clock(monotonic=lambda: self.now), own=OWN)
        activity.note_ready()
        self.scheduler = PromptScheduler(
            config,
            acceptor=cast("Any", self.acceptor),
            log=self.log,
            runs=cast("Any", self.running),
            activity=activity,
            accounting=cast("Any", self.accounting),
            clock=Clock(now_ns=lambda: int(self.now * 1e9)),
            seconds=1,
            environment={},
        )

    async def check(self, *, after: float = 0) -> list[str]:
        """Return the triggers of the messages that the check has sent."""
        self.now += after
        before = len(self.acceptor.taken)
        await self.scheduler.check()
        return [str(request.message.metadata["trigger"]) for _, request in self.acceptor.taken[before:]]


Configured = Callable[..., AgentConfig]


@pytest.fixture
def configured(documents: Callable[..., dict[str, Any]]) -> Configured:
    def build(*, initial: str | None = None, idle: bool = True) -> AgentConfig:
        prompts = {"idlePrompt": {"text": "Look.", "everySeconds": EVERY}} if idle else {}
        return AgentConfig.model_validate(documents(**prompts, **({"initialPrompt": initial} if initial else {})))

    return build


async def test_prompt_is_a_message_of_the_agent_itself(configured: Configured) -> None:
    world = SchedulerFixture(configured(initial="Begin."))
    await world.check()
    ((owner, request),) = world.acceptor.taken
    assert (owner, request.message.context_id, request.message.parts[0].text) == (OWN, "initial-prompt", "Begin.")
    assert MessageToDict(request.message.metadata) == {"trigger": "initial-prompt", "priority": "low"}
    assert world.acceptor.started == 1


@pytest.mark.parametrize("text", ["Begin.", "Begin in another way."], ids=["the same text", "another text"])
async def test_initial_prompt_is_not_sent_by_the_next_process(configured: Configured, text: str) -> None:
    world = SchedulerFixture(configured(initial="Begin."))
    assert [await world.check(), await world.check()] == [["initial-prompt"], []]
    again = SchedulerFixture(configured(initial=text), world.log)
    assert await again.check() == []
    assert await again.check(after=EVERY) == ["idle-prompt"]


async def test_idle_prompt_waits_until_the_initial_prompt_is_sent(configured: Configured) -> None:
    world = SchedulerFixture(configured(initial="Begin."))
    world.acceptor.error = MemoryFull("full")
    assert await world.check(after=EVERY) == []
    world.acceptor.error = None
    assert [await world.check(), await world.check()] == [["initial-prompt"], ["idle-prompt"]]


async def test_idle_prompt_waits_for_tasks_and_budgets(configured: Configured) -> None:
    world = SchedulerFixture(configured())
    assert await world.check(after=EVERY - 1) == []
    world.running.append("a task")
    assert await world.check(after=1) == []
    world.running.clear()
    world.accounting.is_used_up = True
    assert await world.check() == []
    world.accounting.is_used_up = False
    assert await world.check() == ["idle-prompt"]


async def test_initial_prompt_waits_for_a_budget(configured: Configured) -> None:
    world = SchedulerFixture(configured(initial="Begin."))
    world.accounting.is_used_up = True
    assert await world.check() == []
    assert world.scheduler.next_wake_ns() == 15 * 60 * 10**9, "a sleeping agent wakes to send it"
    world.accounting.is_used_up = False
    assert await world.check() == ["initial-prompt"]
    assert world.scheduler.next_wake_ns() is None


WAITS = [
    pytest.param(OWN, "idle-prompt", WAITING, [], id="an idle prompt"),
    pytest.param(OWN, "idle-prompt", COMPLETED, ["idle-prompt"], id="an idle prompt that has ended"),
    pytest.param(OWN, "initial-prompt", WAITING, ["idle-prompt"], id="the initial prompt"),
    pytest.param("client:default", "idle-prompt", WAITING, ["idle-prompt"], id="a task of a caller"),
]


@pytest.mark.parametrize(("owner", "context", "state", "sent"), WAITS)
async def test_idle_prompt_does_not_follow_one_that_waits(
    configured: Configured, owner: str, context: str, state: Any, sent: list[str]
) -> None:
    world = SchedulerFixture(configured())
    task = new("t")
    task.context_id = context
    answer = await world.log.accept(claim("t", owner=owner), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    task.status.state = state
    await world.log.rest(answer.ownership, (EventRecord(2, 9, ended("t", state)),), task)
    assert await world.check(after=EVERY) == sent


async def test_refused_prompt_is_logged_once(configured: Configured, caplog: pytest.LogCaptureFixture) -> None:
    world = SchedulerFixture(configured())
    with caplog.at_level(logging.INFO, logger="fleetwright_agent"):
        world.acceptor.error = MemoryFull("full")
        for _ in range(3):
            assert await world.check(after=EVERY) == []
        world.accounting.error = MemoryUnusable("unusable")
        for _ in range(3):
            assert await world.check() == []
    said = [(record.levelname, getattr(record, "reason", "")) for record in caplog.records]
    assert said == [("INFO", "full"), ("INFO", "unusable")]
    world.acceptor.error = world.accounting.error = None
    assert await world.check() == ["idle-prompt"]


async def test_unexpected_error_does_not_end_the_checks(configured: Configured) -> None:
    world = SchedulerFixture(configured())
    world.acceptor.error = RuntimeError("broken")
    assert await world.check(after=EVERY) == []
    world.acceptor.error = None
    assert await world.check() == ["idle-prompt"]
