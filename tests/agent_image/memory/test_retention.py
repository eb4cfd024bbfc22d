"""Retention of conversations, and a full memory volume, with real files and a manual clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Task, TaskState, TaskStatus
from prometheus_client import CollectorRegistry

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import MemoryFull, ServiceUnavailable
from fleetwright_agent.config.memory import Memory
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.server.retention import Retention
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.storage.conversations import ConversationUse, beyond, conversation, idle
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import PeerCall, PeerCallStatus
from fleetwright_agent.storage.sqlite.conversations.schema import FILE, SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.storage.volume import DiskSpace, MemoryVolume
from fleetwright_agent.telemetry.metrics import Metrics

MIB = 1024 * 1024
ROOMY = DiskSpace(free=500 * MIB, capacity=1000 * MIB)


def of(owner: str, *used: float) -> list[ConversationUse]:
    return [ConversationUse(owner, f"c{n}", at) for n, at in enumerate(used)]


@pytest.mark.parametrize(
    ("busy", "wanted"),
    [
        pytest.param([], ["c0", "c1"], id="those that nobody has used since then"),
        pytest.param([("a", "c0")], ["c1"], id="but none that is in use"),
        pytest.param([("b", "c0")], ["c0", "c1"], id="also where another owner uses one of that name"),
    ],
)
def test_idle_selects_unused_conversations_that_are_not_busy(busy, wanted):
    assert [context for _, context in idle(of("a", 1, 2, 3), before=3, busy=busy)] == wanted


@pytest.mark.parametrize(
    ("found", "most", "busy", "wanted"),
    [
        pytest.param(of("a", 1, 2, 3), 3, [], [], id="none where there are not too many"),
        pytest.param(of("a", 1, 2, 3), 1, [], [("a", "c0"), ("a", "c1")], id="the oldest where there are"),
        pytest.param(of("a", 1, 2, 3), 2, [("a", "c0")], [("a", "c1")], id="the oldest that is not in use"),
        pytest.param(of("a", 1, 2) + of("b", 3), 1, [], [("a", "c0")], id="of each owner by itself"),
    ],
)
def test_beyond_selects_conversations_over_the_limit(found, most, busy, wanted):
    assert beyond(found, most=most, busy=busy) == wanted


class House:
    """A volume with conversations, and a manual clock."""

    def __init__(self, folder: Path, policy: Memory, *, space: DiskSpace = ROOMY) -> None:
        self.now = 1_000_000.0
        self.space = space
        self.folder = folder
        self.database = Database(folder / FILE, SCHEMA)
        self.log = MemoryTaskLog()
        self.admission = Admission()
        self.metrics = Metrics(CollectorRegistry())
        self.storage = sqlite_storage(folder, conversations=self.database)
        self.sessions = Sessions(self.storage.sessions, redact=str, clock=lambda: self.now)
        self.retention = Retention(
            policy,
            volume=MemoryVolume(folder, most_bytes=policy.max_bytes, space=lambda _: self.space),
            admission=self.admission,
            log=self.log,
            storage=self.storage,
            metrics=self.metrics,
            clock=Clock(now_ns=lambda: int(self.now * 1e9), monotonic=lambda: self.now),
        )

    async def talk(self, context: str, *, ago: float, owner: str = "client:a", size: int = 100) -> None:
        row = (conversation(owner, context), "", "1", "bytes", b"", "bytes", b"", self.now - ago)
        message = (conversation(owner, context), "", 0, "m", "bytes", b"x" * size)
        await self.database.run(lambda db: db.execute("INSERT INTO checkpoints VALUES (?,?,?,?,?,?,?,?)", row))
        await self.database.run(lambda db: db.execute("INSERT INTO messages VALUES (?,?,?,?,?,?)", message))

    async def wait(self, context: str, owner: str = "client:a") -> None:
        """Add a running task to the conversation."""
        task = Task(id=f"t-{context}", context_id=context, status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
        await self.log.accept(Claim(owner, context, b""), task, at_ns=1)

    async def left(self) -> list[str]:
        return [each.context_id for each in await self.storage.conversations.last_uses()]

    def forgotten(self, reason: str) -> float | None:
        return self.metrics.registry.get_sample_value("fleetwright_conversations_forgotten_total", {"reason": reason})


@pytest.fixture
async def open_house(tmp_path: Path) -> AsyncIterator[object]:
    opened: list[House] = []

    def make(space: DiskSpace = ROOMY, **policy: int) -> House:
        opened.append(House(tmp_path, Memory.model_validate(policy), space=space))
        return opened[-1]

    yield make
    for house in opened:
        await house.database.aclose()


async def test_retention_deletes_old_conversations_that_are_not_in_use(open_house):
    house = open_house(conversationRetentionSeconds=3600)
    for context, ago in (("old", 3601), ("old but in use", 9999), ("young", 3599)):
        await house.talk(context, ago=ago)
    await house.wait("old but in use")
    await house.retention.expire()
    assert (await house.left(), house.forgotten("idle")) == (["old but in use", "young"], 1)


async def test_retention_deletes_side_threads_of_a_conversation_only(open_house):
    house = open_house(conversationRetentionSeconds=3600)
    for context in ("c", "c\ntask", "cc"):
        await house.talk(context, ago=9999 if context != "cc" else 0)
    await house.retention.expire()
    threads = await house.database.run(lambda db: db.execute("SELECT thread FROM messages").fetchall())
    assert threads == [("client:a\ncc",)]


async def test_retention_keeps_a_conversation_with_recent_side_threads(open_house):
    house = open_house(conversationRetentionSeconds=3600)
    await house.talk("c", ago=9999)
    await house.talk("c\ntask", ago=1)
    await house.retention.expire()
    assert await house.left() == ["c"]


async def test_retention_deletes_old_sessions(open_house):
    house = open_house(conversationRetentionSeconds=3600)
    await house.sessions.put("client:a", "old", asked="Who?", answered="Ada.")
    house.now += 3601
    await house.sessions.put("client:a", "young", asked="Who?", answered="Bob.")
    await house.retention.expire()
    assert [session.context_id for session in await house.sessions.of("client:a")] == ["young"]


async def test_retention_deletes_old_calls_of_peers(open_house):
    house = open_house(conversationRetentionSeconds=3600)
    for name, ago in (("old", 3601), ("young", 3599)):
        ended = {"status": PeerCallStatus.COMPLETED, "ended_at": house.now - ago}
        await house.storage.peer_calls.begin(PeerCall(name, "client:a", "c", "t", "n/cook", "boil", 0.0, **ended))
    await house.retention.expire()
    assert [call.id for call in await house.storage.peer_calls.of()] == ["young"]


async def test_retention_limits_the_conversations_of_each_owner(open_house):
    house = open_house(maxConversationsPerCaller=2)
    for n in range(4):
        await house.talk(f"c{n}", ago=100 - n)
    await house.talk("b", ago=1000, owner="client:b")
    await house.retention.expire()
    assert (await house.left(), house.forgotten("count")) == (["b", "c2", "c3"], 2)


async def test_retention_frees_space_from_the_oldest_conversations(open_house):
    house = open_house(maxBytes=16 * MIB)
    for n in range(30):
        await house.talk(f"c{n:02d}", ago=100 - n, size=MIB)
    await house.wait("c00")
    await house.retention.look()
    left = await house.left()
    assert (left[0], left[-1], house.admission.full) == ("c00", "c29", False)
    assert 5 <= len(left) <= 16
    assert house.metrics.registry.get_sample_value("fleetwright_memory_bytes", {"part": "conversations"}) <= 16 * MIB
    assert house.forgotten("room") == 30 - len(left)


async def test_retention_refuses_new_tasks_until_there_is_space(open_house):
    house = open_house(maxBytes=16 * MIB)
    await house.database.check()
    ballast = house.folder / "audit"
    ballast.write_bytes(b"x" * 17 * MIB)
    await house.retention.look()
    with pytest.raises(MemoryFull, match=r"memory\.maxBytes"):
        house.admission.admit("client:a", begins=True)
    house.admission.admit("client:a", begins=False)
    assert house.metrics.registry.get_sample_value("fleetwright_memory_full") == 1
    ballast.unlink()
    await house.retention.look()
    house.admission.admit("client:a", begins=True)


@pytest.mark.parametrize(
    ("part", "remedy"),
    [
        pytest.param("audit", "move audit/audit.jsonl.1 off the volume", id="a trail that is too large"),
        pytest.param("tasks", "lower memory.taskRetention", id="a task log that is"),
        pytest.param("knowledge", "raise memory.maxBytes and memory.storage.size", id="facts that are too many"),
    ],
)
async def test_retention_keeps_conversations_if_other_parts_are_full(open_house, caplog, part, remedy):
    """If other parts of the volume are too large, no conversation is deleted, and one log record names the remedy."""
    house = open_house(maxBytes=16 * MIB)
    for n in range(3):
        await house.talk(f"c{n}", ago=100 - n, size=MIB)
    (house.folder / part).write_bytes(b"x" * 17 * MIB)
    await house.retention.look()
    await house.retention.look()
    assert (await house.left(), house.admission.full) == (["c0", "c1", "c2"], True)
    (said,) = [each.getMessage() for each in caplog.records if "the memory is full" in each.getMessage()]
    assert f"most of it is {part}, {17 * MIB} of the {16 * MIB} bytes of memory.maxBytes" in said
    assert remedy in said


async def test_retention_refuses_tasks_while_the_disk_is_full(open_house):
    house = open_house(space=DiskSpace(free=MIB, capacity=1000 * MIB))
    await house.talk("c", ago=1)
    await house.retention.look()
    assert (await house.left(), house.admission.full) == (["c"], True)
    house.space = ROOMY
    await house.retention.look()
    assert not house.admission.full


@pytest.mark.parametrize(
    ("space", "full"),
    [
        pytest.param(DiskSpace(free=32 * MIB, capacity=1000 * MIB), False, id="as much as is reserved is room"),
        pytest.param(DiskSpace(free=32 * MIB - 1, capacity=1000 * MIB), True, id="less is none"),
        pytest.param(DiskSpace(free=5 * MIB, capacity=100 * MIB), False, id="a small volume reserves a twentieth"),
    ],
)
async def test_retention_reserves_disk_space_for_running_tasks(open_house, space, full):
    house = open_house(space=space)
    await house.database.check()
    await house.retention.look()
    assert house.admission.full is full


def test_memory_volume_sizes_are_grouped_by_part(tmp_path):
    files = ("tasks.db", "tasks.db-wal", "conversations.db", "knowledge/a.db", "audit/audit.jsonl")
    for n, name in enumerate((*files, "lost+found/y", "skills/a.db"), start=1):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * n)
    parts = MemoryVolume(tmp_path, most_bytes=1).sizes().parts
    assert parts == {"tasks": 3, "conversations": 3, "knowledge": 4, "audit": 5, "other": 6, "skills": 7}


def test_admission_refuses_only_the_owner_under_erasure():
    gate = Admission()
    with gate.closed("client:a"), gate.closed("client:a"):
        with pytest.raises(ServiceUnavailable, match="being erased"):
            gate.admit("client:a", begins=False)
        gate.admit("client:b", begins=True)
    gate.admit("client:a", begins=True)
