"""Erasures that fail halfway and are requested again before maintenance resumes them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.telemetry.metrics import Metrics

OWNER = "client:other"


class FailingTaskLog(MemoryTaskLog):
    """A task log that cannot delete the tasks of one conversation, for a number of attempts."""

    def __init__(self, failing: str, *, attempts: int) -> None:
        super().__init__()
        self.failing = failing
        self.attempts = attempts

    async def forget(self, owner: str, context_id: str = "") -> None:
        if context_id == self.failing and self.attempts:
            self.attempts -= 1
            raise TaskLogUnavailable("the log cannot be written")
        await super().forget(owner, context_id)


class UnusedExecutor:
    """No task runs in these tests."""

    def begin(self, job: TaskJob, emit: Emit) -> Any:
        raise AssertionError(job.task_id)


class Desk:
    """The erasure of an agent whose owner has the conversation `a`, its fork `b`, and `c`, a fork of `b`."""

    def __init__(self, folder: Path, failing: str, *, attempts: int = 1) -> None:
        log = FailingTaskLog(failing, attempts=attempts)
        self.storage = memory_storage()
        self.trail = AuditTrail(folder, redact=lambda told: told, now_ns=lambda: 0, on_failure=lambda: None)
        self.erasure = Erasure(
            log,
            self.storage,
            self.trail,
            tasks=ActiveTasks(log, Clock()),
            runs=TaskRunner(UnusedExecutor(), limit=600, most=1, metrics=Metrics(CollectorRegistry()), clock=Clock()),
            admission=Admission(),
            clock=Clock(),
        )

    async def fill(self) -> None:
        for context in ("a", "b", "c"):
            source = Provenance(OWNER, context, f"t-{context}")
            await self.storage.facts.remember(OWNER, f"A fact of {context}", source, hot=False, most=9)
        await self.storage.conversations.fork(OWNER, "b", source="a")
        await self.storage.conversations.fork(OWNER, "c", source="b")

    async def erase(self, context: str) -> dict[str, Any]:
        return dict(await self.erasure.erase(ErasureTarget(OWNER, context), asked_by="client:default"))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Any]:
    desks: list[Desk] = []

    async def opened(failing: str, **options: int) -> Desk:
        desks.append(Desk(tmp_path, failing, **options))
        await desks[-1].fill()
        return desks[-1]

    yield opened
    for each in desks:
        await each.trail.aclose()


@pytest.mark.parametrize("failing", ["a", "b", "c"])
@pytest.mark.parametrize("attempts", [1, 2])
async def test_repeated_erasure_includes_the_forks(desk: Any, failing: str, attempts: int) -> None:
    office = await desk(failing, attempts=attempts)
    for _ in range(attempts):
        with pytest.raises(TaskLogUnavailable):
            await office.erase("a")
    receipt = await office.erase("a")
    assert (receipt["number"], receipt["forks"], receipt["erased"]["facts"]) == (1, ["b", "c"], 3)
    assert await office.storage.facts.facts(OWNER) == []
    assert await office.storage.erasures.unfinished() == []
    assert await office.erase("a") == receipt


@pytest.mark.parametrize("failing", ["b", "c"])
@pytest.mark.parametrize(
    "later",
    [pytest.param("b", id="a fork"), pytest.param("c", id="a fork of a fork"), pytest.param("", id="the owner")],
)
async def test_later_erasure_completes_unfinished_ones(desk: Any, failing: str, later: str) -> None:
    office = await desk(failing)
    with pytest.raises(TaskLogUnavailable):
        await office.erase("a")
    receipt = await office.erase(later)
    assert (receipt["number"], receipt.get("contextId", "")) == (2, later)
    assert await office.storage.facts.facts(OWNER) == []
    assert await office.storage.erasures.unfinished() == []
    assert (await office.erase("a"))["forks"] == ["b", "c"]


async def test_resumed_erasure_includes_newer_forks(desk: Any) -> None:
    """The first attempt has deleted the row by which `b` is found. Then a caller forks `c`, which still exists."""
    office = await desk("b")
    with pytest.raises(TaskLogUnavailable):
        await office.erase("a")
    await office.storage.conversations.fork(OWNER, "d", source="c")
    await office.erasure.resume()
    assert (await office.erase("a"))["forks"] == ["b", "c", "d"]


async def test_erasure_leaves_unfinished_ones_of_others(desk: Any) -> None:
    office = await desk("a")
    with pytest.raises(TaskLogUnavailable):
        await office.erase("a")
    await office.erasure.erase(ErasureTarget("client:third"), asked_by="client:default")
    assert [each.target.owner for each in await office.storage.erasures.unfinished()] == [OWNER]
    await office.erasure.resume()
    assert await office.storage.erasures.unfinished() == []
