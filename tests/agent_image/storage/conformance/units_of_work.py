"""The units of work of the storage ports: what is stored before, the work, and the state that readers find.

A reader finds the state before the work or the state after it, whatever happens to the process between its statements.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.types.a2a_pb2 import Message, Part, Role
from langchain_core.messages import HumanMessage
from tests.support.agent.task_values import WAITING, accepted, claim, ended, finished, new, piece

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.storage.call_windows import CallLimitWindow
from fleetwright_agent.storage.conversations import SideThread, conversation
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.learned_skills import Merge, Plan, SkillDraft
from fleetwright_agent.storage.open_questions import OpenQuestion, PeerCall, QuestionKey
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.sessions import Session
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.push_store import Registration
from fleetwright_agent.storage.tasks.records import EventRecord, Ownership
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.storage.tool_journal import StartedCall
from fleetwright_agent.storage.usage import ModelCallUsage, TaskUsageLine

Step = Callable[[TaskLog, Storage], Awaitable[Any]]
MAIN = conversation("a", "c")
ASIDE = SideThread("a", "c", "t")


@dataclass(frozen=True)
class UnitOfWork:
    before: Step
    work: Step
    state: Step


async def nothing(_: TaskLog, __: Storage) -> None:
    """Store nothing."""


async def accept(log: TaskLog, _: Storage) -> None:
    await log.accept(claim("t"), new("t"), at_ns=1, also=claim("request"), delegation=Delegation("d", 9, "t"))


async def claims(log: TaskLog, _: Storage) -> Any:
    return [
        await log.find("me", "t") is not None,
        *[await log.known(claim(name)) is not None for name in ("t", "request")],
        await log.delegation("me", "t") is not None,
    ]


async def interrupted(log: TaskLog, _: Storage) -> None:
    await finished(log, "t", WAITING)


async def resume(log: TaskLog, _: Storage) -> None:
    parked = await log.find("me", "t")
    assert parked is not None
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="yes")])
    records = (EventRecord(3, 11, message), EventRecord(4, 12, piece("x")))
    await log.resume(claim("yes"), parked, records)


async def resumed(log: TaskLog, _: Storage) -> Any:
    stored = await log.find("me", "t")
    assert stored is not None
    return [stored.busy, stored.epoch, stored.seq, await log.known(claim("yes")) is not None]


async def running(log: TaskLog, _: Storage) -> None:
    run = await accepted(log, "t")
    for name in "ab":
        await log.pushes.register(run.n, Registration(name, "https://h/", "h:443", "1.0", b""), at_ns=1, most=9)
    log.append(run, EventRecord(2, 2, piece("x")))
    await log.of("me")  # By then the log has written its buffer.


async def rest(log: TaskLog, _: Storage) -> None:
    await log.rest(Ownership(1, 1), (EventRecord(3, 9, ended("t")),), new("t"))


async def rested(log: TaskLog, _: Storage) -> Any:
    stored = await log.find("me", "t")
    assert stored is not None
    due = await log.pushes.due(100, but=(), hosts_but=(), owners_but=(), most=9)
    return [stored.busy, stored.seq, len(due)]


async def charge(_: TaskLog, storage: Storage) -> None:
    await storage.usage.put(ModelCallUsage("m", "turn", "a", 1, 1), TaskUsageLine("a", "t", {}, call="1"))


async def charged(_: TaskLog, storage: Storage) -> Any:
    return [(await storage.usage.since(0)).calls, len(await storage.inflight.of("a", "t"))]


async def talked(_: TaskLog, storage: Storage) -> None:
    saver = storage.checkpoints()
    for thread in (MAIN, ASIDE.delegated("x")):
        history = [HumanMessage("one", id="1"), HumanMessage("two", id="2")]
        checkpoint: Any = {"v": 1, "id": "1", "ts": "", "channel_values": {"messages": history}}
        await saver.aput({"configurable": {"thread_id": thread}}, checkpoint, {"step": 1}, {"messages": "1"})
        await saver.settled(thread)
    await storage.views().put(MAIN, {"view": None, "failures": 1}, at=1.0, cut=None)
    await storage.journal.begin(MAIN, "1", StartedCall("rope", {}))
    await storage.grants.put("a", "c", "rope", ["short"])
    written = storage.sessions.put("a", "c", lambda _: Session("c", [], 1.0), most=9)
    await storage.sessions.written(written)
    await storage.questions.put(OpenQuestion(QuestionKey("a", "c", "n/cook"), "remote", "t"))
    await storage.peer_calls.begin(PeerCall("1", "a", "c", "t", "n/cook", "boil", 1.0))
    await charge(_, storage)


async def forget(_: TaskLog, storage: Storage) -> None:
    await storage.conversations.forget([("a", "c")])


async def erase(_: TaskLog, storage: Storage) -> None:
    await storage.owners.erase(ErasureTarget("a"), tasks=["t"])


async def copy(_: TaskLog, storage: Storage) -> None:
    await storage.checkpoints().acopy_thread(MAIN, ASIDE.thread)


async def owned(_: TaskLog, storage: Storage) -> Any:
    """Return what is left of an owner in every table of the conversations."""
    journals = [await storage.journal.get(thread, "1") is not None for thread in (MAIN, ASIDE.thread)]
    return [
        await storage.owners.counted(ErasureTarget("a")),
        [side.thread for side in await storage.conversations.side_threads()],
        [await storage.views().get(thread) is not None for thread in (MAIN, ASIDE.thread)],
        [*journals, len(await storage.grants.of("a")), len(await storage.questions.all())],
        [len(await storage.inflight.of("a", "t")), len(await storage.usage.of("a"))],
    ]


async def cut(_: TaskLog, storage: Storage) -> None:
    await storage.views().put(MAIN, {"view": {"request": "2"}, "failures": 0}, at=5.0, cut="1")


async def viewed(_: TaskLog, storage: Storage) -> Any:
    view = await storage.views().get(MAIN)
    return [view, await storage.conversations.expire_archive(10.0)]


async def settle(_: TaskLog, storage: Storage) -> None:
    await storage.journal.settle(MAIN, "outcome", "done")


async def settled(_: TaskLog, storage: Storage) -> Any:
    return [await storage.journal.get(MAIN, call) is not None for call in ("1", "outcome")]


async def remember(_: TaskLog, storage: Storage) -> None:
    written = storage.sessions.put("a", "d", lambda _: Session("d", [], 2.0), most=1)
    await storage.sessions.written(written)


async def remembered(_: TaskLog, storage: Storage) -> Any:
    return [each.context_id for each in await storage.sessions.of("a")]


async def admit(_: TaskLog, storage: Storage) -> None:
    await storage.call_windows.admit([CallLimitWindow("one", 1, 600), CallLimitWindow("all", 1, 600)])


async def admitted(_: TaskLog, storage: Storage) -> Any:
    windows = [CallLimitWindow("one", 1, 600), CallLimitWindow("all", 1, 600)]
    return [await storage.call_windows.admit([each]) is not None for each in windows]


async def learned(_: TaskLog, storage: Storage) -> None:
    for name in ("kept", "merged", "pruned"):
        draft = SkillDraft(name, "knots", "tie a knot", ("rope",))
        await storage.skills.learn("a", draft, Provenance("a", "c", "t"), most=9)
    await storage.skills.told("a", (await storage.skills.skills("a"))[1:2])


async def curate(_: TaskLog, storage: Storage) -> None:
    (key,) = storage.skills.owners()
    await storage.skills.curate(
        key, lambda skills: Plan((skills[0],), (Merge(skills[1], "kept"),), (skills[2],)), dry_run=False
    )


async def curated(_: TaskLog, storage: Storage) -> Any:
    """Return the skills that a list and a search find."""
    listed = [[each.draft.name, each.uses] for each in await storage.skills.skills("a")]
    return [listed, sorted(each.draft.name for each in await storage.skills.recall("a", "knot", most=9))]


async def note(_: TaskLog, storage: Storage) -> None:
    await storage.facts.remember("a", "a knot is tied", Provenance("a", "c", "t"), hot=True, most=9)


async def told(_: TaskLog, storage: Storage) -> None:
    await storage.facts.remember("a", "a rope is red", Provenance("a", "c", "t"), hot=True, most=9)


async def noted(_: TaskLog, storage: Storage) -> Any:
    """Return the facts that a list and a search find."""
    return [len(await storage.facts.facts("a")), len(await storage.facts.recall("a", "knot", most=9))]


UNITS = {
    "accept": UnitOfWork(nothing, accept, claims),
    "resume": UnitOfWork(interrupted, resume, resumed),
    "rest": UnitOfWork(running, rest, rested),
    "charge": UnitOfWork(nothing, charge, charged),
    "forget": UnitOfWork(talked, forget, owned),
    "erase": UnitOfWork(talked, erase, owned),
    "copy": UnitOfWork(talked, copy, owned),
    "view": UnitOfWork(talked, cut, viewed),
    "settle": UnitOfWork(talked, settle, settled),
    "session": UnitOfWork(talked, remember, remembered),
    "admit": UnitOfWork(nothing, admit, admitted),
    "curate": UnitOfWork(learned, curate, curated),
    "fact": UnitOfWork(told, note, noted),
}
