"""The contract of the task log, which every implementation must meet."""

import asyncio

import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from tests.agent_image.storage.conformance.conftest import Restart, SettableClock, Stores
from tests.support.agent.task_values import COMPLETED, WAITING, accepted, claim, ended, finished, new, piece
from tests.support.waiting import within

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.task_events import status_event
from fleetwright_agent.storage.errors import TaskLogUnavailable, TaskNotRunning
from fleetwright_agent.storage.tasks.push_store import Registration
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    Key,
    MessageNotAccepted,
    Ownership,
    TaskChanges,
    TaskIdInUse,
    TaskQuery,
    TooManyWaitingTasks,
)
from fleetwright_agent.storage.tasks.task_log import TaskLog

SECOND = 1_000_000_000


async def test_accept_returns_the_task_of_a_known_claim(log: TaskLog) -> None:
    await accepted(log, "t")
    assert await log.accept(claim("t"), new("again"), at_ns=2) == DuplicateClaim("t")
    assert isinstance(await log.accept(claim("t", content=b"2"), new("u"), at_ns=2), AcceptedClaim)
    assert isinstance(await log.accept(claim("t", owner="you"), new("t"), at_ns=2), AcceptedClaim)
    assert await log.find("me", "again") is None


async def test_append_and_rest_refuse_a_task_at_rest(log: TaskLog) -> None:
    run = await finished(log, "t")
    log.append(run, EventRecord(3, 10, piece("late")))
    await accepted(log, "other")
    with pytest.raises(TaskLogUnavailable):
        await log.rest(run, (EventRecord(3, 10, ended("t")),), new("t"))
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.seq, stored.busy, len(stored.task.artifacts)) == (2, False, 0)
    assert stored.task.status.state == COMPLETED


async def test_page_includes_appended_records(log: TaskLog) -> None:
    run = await accepted(log, "t")
    for number, text in enumerate(["one ", "two ", "three"], start=2):
        log.append(run, EventRecord(number, number, piece(text)))
    await log.page(TaskQuery("me", size=1))
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.seq, stored.busy) == (4, True)
    assert [part.text for part in stored.task.artifacts[0].parts] == ["one two three"]


async def test_resume_continues_an_interrupted_task_once(log: TaskLog) -> None:
    await finished(log, "t", WAITING)
    stored = await log.find("me", "t")
    assert stored is not None
    message = Message(message_id="m2", role=Role.ROLE_USER, parts=[Part(text="yes")])
    record = EventRecord(3, 11, message)
    answers = await asyncio.gather(
        log.resume(claim("yes"), stored, (record,)),
        log.resume(claim("no"), stored, (record,)),
        log.resume(claim("yes"), stored, (record,)),
    )
    assert answers == [AcceptedClaim(Ownership(stored.n, 2)), MessageNotAccepted(), DuplicateClaim("t")]
    after = await log.find("me", "t")
    assert after is not None
    assert (after.busy, after.task.history[-1].parts[0].text) == (True, "yes")
    assert await log.busy() == (Key("me", "t"),)


async def test_end_ends_an_unchanged_interrupted_task_once(log: TaskLog) -> None:
    await finished(log, "t", WAITING)
    await finished(log, "u", WAITING)
    parked, other = await log.find("me", "t"), await log.find("me", "u")
    assert parked is not None
    assert other is not None
    final = new("t")
    final.status.state = TaskState.TASK_STATE_CANCELED
    record = EventRecord(3, 11, ended("t", TaskState.TASK_STATE_CANCELED))
    assert await log.end(parked, record, final)
    assert not await log.end(parked, record, final)
    assert isinstance(
        await log.resume(claim("on"), other, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert not await log.end(other, record, final)
    assert await log.busy() == (Key("me", "u"),)


async def test_resume_refuses_a_finished_task(log: TaskLog) -> None:
    await finished(log, "t")
    stored = await log.find("me", "t")
    assert stored is not None
    assert await log.resume(claim("x"), stored, (EventRecord(3, 11, Message(message_id="m")),)) == MessageNotAccepted()


async def test_busy_returns_running_tasks_in_order(log: TaskLog) -> None:
    await finished(log, "done")
    await finished(log, "parked", WAITING)
    await accepted(log, "running", at_ns=20)
    await accepted(log, "another", at_ns=10, owner="you")
    assert await log.busy() == (Key("me", "running"), Key("you", "another"))


async def test_busy_keeps_the_order_of_the_queue(log: TaskLog) -> None:
    await finished(log, "parked", WAITING)
    await finished(log, "asked", WAITING)
    await accepted(log, "first", at_ns=10)
    begun = await accepted(log, "begun", at_ns=11)
    log.began(begun, 12, again=True)
    for at_ns, name in ((13, "asked"), (14, "parked")):
        waits = await log.find("me", name)
        assert waits is not None
        works = status_event(name, "c", TaskState.TASK_STATE_WORKING, at_ns=at_ns)
        records = (EventRecord(3, at_ns, Message(message_id="m")), EventRecord(4, at_ns, works))
        assert isinstance(await log.resume(claim(f"yes-{name}"), waits, records), AcceptedClaim)
    await accepted(log, "last", at_ns=1)
    await log.of("me")  # The log has then written its buffer.
    assert [key.task_id for key in await log.busy()] == ["begun", "first", "asked", "parked", "last"]


async def test_expired_returns_tasks_past_their_wait(log: TaskLog) -> None:
    await finished(log, "early", WAITING, expires_ns=10)
    await finished(log, "late", WAITING, expires_ns=20)
    await finished(log, "for ever", WAITING)
    await finished(log, "answered", WAITING, expires_ns=10)
    answered = await log.find("me", "answered")
    assert answered is not None
    assert isinstance(
        await log.resume(claim("yes"), answered, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert await log.expired(9) == ()
    assert await log.expired(10) == (Key("me", "early"),)
    assert set(await log.expired(20)) == {Key("me", "early"), Key("me", "late")}
    await log.rest(Ownership(answered.n, 2), (EventRecord(4, 12, ended("answered", WAITING)),), new("answered"))
    assert await log.expired(10) == (Key("me", "early"),)


async def test_next_expiry_is_the_earliest_of_waiting_tasks(log: TaskLog) -> None:
    await finished(log, "for ever", WAITING)
    assert await log.next_expiry_ns() is None
    await finished(log, "late", WAITING, expires_ns=20)
    await finished(log, "early", WAITING, expires_ns=10)
    assert await log.next_expiry_ns() == 10
    answered = await log.find("me", "early")
    assert answered is not None
    await log.resume(claim("yes"), answered, (EventRecord(3, 11, Message(message_id="m")),))
    assert await log.next_expiry_ns() == 20


async def test_waiting_returns_interrupted_tasks_in_order(log: TaskLog) -> None:
    await finished(log, "later", WAITING, at_ns=20)
    await finished(log, "first", WAITING, at_ns=10)
    await finished(log, "done")
    await accepted(log, "running")
    assert await log.waiting() == (Key("me", "first"), Key("me", "later"))
    answered = await log.find("me", "first")
    assert answered is not None
    await log.resume(claim("yes"), answered, (EventRecord(3, 11, Message(message_id="m")),))
    assert await log.waiting() == (Key("me", "later"),)


async def test_named_returns_tasks_of_all_owners(log: TaskLog) -> None:
    await accepted(log, "t")
    await accepted(log, "t", owner="you")
    await accepted(log, "other")
    assert await log.named("t") == (Key("me", "t"), Key("you", "t"))
    assert await log.named("unknown") == ()


async def test_oldest_ended_ignores_running_and_waiting_tasks(log: TaskLog) -> None:
    await accepted(log, "running", at_ns=1)
    await finished(log, "parked", WAITING, at_ns=2)
    assert await log.oldest_ended_ns() is None
    await finished(log, "late", at_ns=40)
    await finished(log, "early", at_ns=30)
    assert await log.oldest_ended_ns() == 30
    await log.sweep(31)
    assert await log.oldest_ended_ns() == 40


async def test_accept_refuses_beyond_the_waiting_limit(log: TaskLog) -> None:
    await finished(log, "one", WAITING)
    await finished(log, "two", WAITING)
    await finished(log, "done")
    assert await log.accept(claim("three"), new("three"), at_ns=1, most_waiting=2) == TooManyWaitingTasks()
    assert await log.find("me", "three") is None
    assert await log.accept(claim("two"), new("again"), at_ns=1, most_waiting=2) == DuplicateClaim("two")
    assert isinstance(await log.accept(claim("t", owner="you"), new("t"), at_ns=1, most_waiting=2), AcceptedClaim)
    waits = await log.find("me", "two")
    assert waits is not None
    assert isinstance(
        await log.resume(claim("yes"), waits, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert isinstance(await log.accept(claim("three"), new("three"), at_ns=1, most_waiting=2), AcceptedClaim)


async def test_page_lists_one_owner_newest_first(log: TaskLog) -> None:
    for name, at_ns in [("a", 1), ("b", 2), ("c", 2), ("d", 3)]:
        await accepted(log, name, at_ns=at_ns)
    await accepted(log, "z", at_ns=4, owner="you")
    first = await log.page(TaskQuery(owner="me", size=2))
    assert [s.task.id for s in first.tasks] == ["d", "c"]
    assert first.total == 4
    second = await log.page(TaskQuery(owner="me", size=2, after=first.following))
    assert ([s.task.id for s in second.tasks], second.following) == (["b", "a"], None)
    since = await log.page(TaskQuery(owner="me", size=9, since_ns=3))
    assert [s.task.id for s in since.tasks] == ["d"]


async def test_page_without_an_owner_lists_all_owners(log: TaskLog) -> None:
    for name, at_ns, owner in [("a", 1, "me"), ("b", 2, "you"), ("c", 3, "me")]:
        await accepted(log, name, at_ns=at_ns, owner=owner)
    first = await log.page(TaskQuery(owner=None, size=2))
    assert [(s.owner, s.task.id) for s in first.tasks] == [("me", "c"), ("you", "b")]
    assert first.total == 3
    second = await log.page(TaskQuery(owner=None, size=2, after=first.following))
    assert ([s.task.id for s in second.tasks], second.following) == (["a"], None)


async def test_page_of_large_tasks_is_shorter(log: TaskLog) -> None:
    for name, megabytes in [("a", 3), ("b", 3), ("c", 5), ("d", 0)]:
        run = await accepted(log, name)
        final = new(name)
        final.status.state = COMPLETED
        final.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="x" * megabytes * 2**20)]))
        await log.rest(run, (EventRecord(2, 9, ended(name)),), final)
    pages, after = [], None
    while not pages or after:
        page = await log.page(TaskQuery(owner="me", size=9, after=after))
        pages.append([stored.task.id for stored in page.tasks])
        after = page.following
        assert page.total == 4
    assert pages == [["d", "c"], ["b", "a"]]
    assert [s.task.id for s in (await log.page(TaskQuery(owner="me", size=1))).tasks] == ["d"]


async def test_sweep_deletes_old_ended_tasks_with_claims(log: TaskLog) -> None:
    await finished(log, "old", at_ns=5)
    await finished(log, "young", at_ns=50)
    await finished(log, "parked", WAITING, at_ns=5)
    await accepted(log, "running", at_ns=5)
    assert await log.sweep(before_ns=10) == 1
    left = await log.page(TaskQuery(owner="me", size=9))
    assert {s.task.id for s in left.tasks} == {"young", "parked", "running"}
    assert isinstance(await log.accept(claim("old"), new("old"), at_ns=60), AcceptedClaim)


async def test_many_concurrent_tasks_are_all_stored(log: TaskLog) -> None:
    await asyncio.gather(*(finished(log, f"t{n}") for n in range(100)))
    page = await log.page(TaskQuery(owner="me", size=100))
    assert page.total == 100
    assert all(not s.busy for s in page.tasks)


async def _three(log: TaskLog) -> None:
    """Add a task to each of two conversations, and a task of another owner."""
    for owner, context, task in (("a", "c1", "t1"), ("a", "c2", "t2"), ("b", "c1", "t1")):
        await log.accept(Claim(owner, task + context, b""), Task(id=task, context_id=context), at_ns=1)


@pytest.mark.parametrize(
    ("context", "found", "left"),
    [
        pytest.param("", ["t1", "t2"], [Key("b", "t1")], id="all of an owner"),
        pytest.param("c2", ["t2"], [Key("a", "t1"), Key("b", "t1")], id="one conversation"),
        pytest.param("c3", [], [Key("a", "t1"), Key("a", "t2"), Key("b", "t1")], id="a conversation that is not there"),
    ],
)
async def test_forget_deletes_an_owner_or_conversation(log, context, found, left):
    await _three(log)
    await log.pushes.register(2, Registration("r", "https://r.example", "r.example:443", "1.0", b""), at_ns=1, most=5)
    assert [key.task_id for key in await log.of("a", context)] == found
    assert await log.counted("a", context) == DeletedTasks(len(found), found.count("t2"))
    await log.forget("a", context)
    await log.scrub()
    assert (2 in await log.pushes.listened_to()) is ("t2" not in found)
    assert list(await log.busy()) == left
    assert await log.of("a", context) == ()
    # Erasure also deletes the claim, so the same message starts a new task.
    again = await log.accept(Claim("a", "t2c2", b""), Task(id="t2", context_id="c2"), at_ns=2)
    assert isinstance(again, AcceptedClaim) is ("t2" in found)


async def test_held_returns_conversations_in_use(log):
    await _three(log)
    for n, state in ((1, COMPLETED), (2, WAITING)):
        task = Task(id=f"t{n}", context_id=f"c{n}", status=TaskStatus(state=state))
        await log.rest(
            Ownership(n, 1), (EventRecord(2, 2, status_event(task.id, task.context_id, state, at_ns=2)),), task
        )
    assert await log.held() == {("a", "c2"), ("b", "c1")}


async def test_accept_lets_one_of_two_concurrent_calls_win(log: TaskLog) -> None:
    answers = await asyncio.gather(
        log.accept(claim("t"), new("one"), at_ns=1), log.accept(claim("t"), new("two"), at_ns=1)
    )
    assert [type(answer) for answer in answers] == [AcceptedClaim, DuplicateClaim]
    assert answers[1] == DuplicateClaim("one")
    assert [key.task_id for key in await log.of("me")] == ["one"]


async def test_accept_claims_a_second_key_with_the_task(log: TaskLog) -> None:
    await log.accept(claim("t"), new("t"), at_ns=1, also=claim("request"))
    assert await log.known(claim("request")) == DuplicateClaim("t")
    assert not await log.is_reused(claim("request"))
    assert await log.is_reused(claim("request", content=b"other"))


async def taken_up(log: TaskLog, name: str = "t") -> tuple[Ownership, Ownership]:
    """Accept a task, and let another process take it up; return the ownership of both."""
    former = await accepted(log, name)
    left = await log.find("me", name)
    assert left is not None
    taken = await log.take_up(left)
    assert taken is not None
    return former, taken.ownership


async def test_take_up_lets_one_of_two_processes_win(log: TaskLog) -> None:
    await accepted(log, "t")
    left = await log.find("me", "t")
    assert left is not None
    taken = await asyncio.gather(log.take_up(left), log.take_up(left))
    assert [None if each is None else each.epoch for each in taken] == [left.epoch + 1, None]
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.epoch, stored.busy) == (left.epoch + 1, True)


async def test_take_up_refuses_a_task_at_rest(log: TaskLog) -> None:
    await finished(log, "t", WAITING)
    parked = await log.find("me", "t")
    assert parked is not None
    assert await log.take_up(parked) is None


async def test_take_up_counts_processes_and_leave_resets(log: TaskLog) -> None:
    run = await accepted(log, "t")
    log.began(run, 1, again=False)
    counts = []
    for _ in range(2):
        await log.page(TaskQuery("me", size=1))  # By then the log has written its buffer.
        left = await log.find("me", "t")
        assert left is not None
        taken = await log.take_up(left)
        assert taken is not None
        run = taken.ownership
        counts.append(taken.taken_up)
    log.leave(run)
    await log.of("me")
    left = await log.find("me", "t")
    assert left is not None
    assert [*counts, left.taken_up] == [1, 2, 0]


async def test_stale_owner_cannot_write(log: TaskLog) -> None:
    former, run = await taken_up(log)
    log.append(former, EventRecord(2, 2, piece("stale")))
    log.began(former, 5, again=True)
    with pytest.raises(TaskNotRunning):
        await log.rest(former, (EventRecord(2, 2, ended("t")),), new("t"))
    log.append(run, EventRecord(2, 3, piece("fresh")))
    await log.page(TaskQuery("me", size=1))
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.seq, stored.busy, stored.began_ns) == (2, True, None)
    assert [part.text for part in stored.task.artifacts[0].parts] == ["fresh"]
    await log.rest(run, (EventRecord(3, 4, ended("t")),), new("t"))
    assert await log.busy() == ()


async def test_owner_before_a_pause_cannot_write_after_it(log: TaskLog) -> None:
    former = await finished(log, "t", WAITING)
    parked = await log.find("me", "t")
    assert parked is not None
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="yes")])
    answer = await log.resume(claim("yes"), parked, (EventRecord(3, 11, message),))
    assert isinstance(answer, AcceptedClaim)
    assert answer.ownership.epoch > former.epoch
    with pytest.raises(TaskNotRunning):
        await log.rest(former, (EventRecord(4, 12, ended("t")),), new("t"))
    await log.rest(answer.ownership, (EventRecord(4, 12, ended("t")),), new("t"))


async def test_since_returns_what_follows_a_sequence_number(log: TaskLog) -> None:
    run = await accepted(log, "t")
    assert await log.since("me", "t", 1) == TaskChanges(1, busy=True)
    records = [EventRecord(number, number, piece(f"{number}")) for number in (2, 3, 4)]
    for record in records:
        log.append(run, record)
    assert await log.since("me", "t", 1) == TaskChanges(4, busy=True, events=tuple(records))
    assert await log.since("me", "t", 3) == TaskChanges(4, busy=True, events=(records[-1],))
    assert await log.since("me", "t", 4) == TaskChanges(4, busy=True)


async def test_since_returns_the_whole_task_if_events_are_gone(log: TaskLog) -> None:
    run = await accepted(log, "t")
    whole = await log.since("me", "t", 0)
    assert whole is not None
    assert (whole.seq, whole.busy, whole.events, whole.task) == (1, True, (), new("t"))
    log.append(run, EventRecord(2, 2, piece("x")))
    final = new("t")
    final.status.state = COMPLETED
    await log.rest(run, (EventRecord(3, 3, ended("t")),), final)
    late = await log.since("me", "t", 1)
    assert late is not None
    assert (late.seq, late.busy, late.events) == (3, False, ())
    assert late.task is not None
    assert late.task.status.state == COMPLETED
    assert await log.since("me", "t", 3) == TaskChanges(3, busy=False)


@pytest.mark.parametrize(
    ("owner", "task"), [pytest.param("me", "other", id="another task"), pytest.param("you", "t", id="another caller")]
)
async def test_since_finds_nothing_of_others(log: TaskLog, owner: str, task: str) -> None:
    await accepted(log, "t")
    assert await log.since(owner, task, 0) is None


async def test_watch_tells_when_a_reader_finds_more(log: TaskLog) -> None:
    woken: asyncio.Queue[int] = asyncio.Queue()
    log.watch(woken.put_nowait)
    async with within("the log reports the task"):
        run = await accepted(log, "t")
        assert await woken.get() == run.n
        log.append(run, EventRecord(2, 2, piece("x")))
        assert await woken.get() == run.n
        changes = await log.since("me", "t", 1)
        assert changes is not None
        assert changes.seq == 2
        await log.rest(run, (EventRecord(3, 3, ended("t")),), new("t"))
        assert await woken.get() == run.n
        changes = await log.since("me", "t", 2)
        assert changes is not None
        assert not changes.busy


async def usable(log: TaskLog) -> bool:
    try:
        await log.find("me", "t")
    except TaskLogUnavailable:
        return False
    return True


async def test_problem_is_reported_while_the_log_is_unusable(stores: Stores) -> None:
    log = stores.log
    assert (log.problem is None) is await usable(log)
    await log.open()
    assert (log.problem, await usable(log)) == (None, True)
    await log.aclose()
    assert (log.problem is None) is await usable(log)


async def test_damaged_counts_no_readable_task(log: TaskLog, restart: Restart) -> None:
    await finished(log, "old", at_ns=5)
    await finished(log, "parked", WAITING)
    await accepted(log, "running")
    assert ((await log.page(TaskQuery("me", size=9))).total, log.damaged) == (3, 0)
    await log.sweep(before_ns=6)
    assert log.damaged == 0
    assert (await restart()).log.damaged == 0


@pytest.mark.parametrize(
    ("alive", "updated", "opened", "wanted"),
    [
        pytest.param(0, 130, 150, 120, id="the newest record is the last sign of life"),
        pytest.param(140, 130, 150, 110, id="the process lived longer than its newest record"),
        pytest.param(90, 100, 150, 150, id="no sign of life since the work began"),
        pytest.param(140, 130, 120, 100, id="the clock was set back"),
    ],
)
async def test_take_up_shifts_the_start_by_the_downtime(
    log: TaskLog, restart: Restart, clock: SettableClock, alive: int, updated: int, opened: int, wanted: int
) -> None:
    run = await accepted(log, "t", at_ns=100 * SECOND)
    log.began(run, 100 * SECOND, again=False)
    log.began(run, 105 * SECOND, again=False)
    log.alive(alive * SECOND)
    log.append(run, EventRecord(2, updated * SECOND, ended("t", TaskState.TASK_STATE_WORKING)))
    after = (await restart()).log
    clock.seconds = opened
    left = await after.find("me", "t")
    assert left is not None
    taken = await after.take_up(left)
    assert taken is not None
    assert (taken.began_ns, taken.taken_up) == (wanted * SECOND, 1)


async def test_updated_is_the_time_of_the_newest_status(log: TaskLog) -> None:
    run = await accepted(log, "t", at_ns=1)
    log.append(run, EventRecord(2, 2, ended("t", TaskState.TASK_STATE_WORKING)))
    log.append(run, EventRecord(3, 3, piece("x")))
    page = await log.page(TaskQuery("me", size=1))
    assert [(each.seq, each.updated_ns) for each in page.tasks] == [(3, 2)]


async def delegated(log: TaskLog, name: str, *, expires_at: int = 100, at_ns: int = 1) -> None:
    answer = await log.accept(
        claim(name), new(name), at_ns=at_ns, delegation=Delegation(f"of-{name}", expires_at, name)
    )
    assert isinstance(answer, AcceptedClaim)


async def test_delegation_belongs_to_one_task_of_one_owner(log: TaskLog, restart: Restart) -> None:
    await delegated(log, "t")
    await accepted(log, "plain")
    await accepted(log, "t", owner="you")
    log = (await restart()).log
    assert await log.delegation("me", "t") == Delegation("of-t", 100, "t")
    assert "of-t" not in repr(await log.delegation("me", "t"))
    others = [("you", "t"), ("me", "plain"), ("me", "nothing")]
    assert [await log.delegation(*other) for other in others] == [None] * 3


async def test_delegation_is_replaced_by_the_message_that_resumes(log: TaskLog) -> None:
    """A message without a delegation, such as the approval of a person, keeps the delegation of the task."""
    for name in ("kept", "replaced"):
        await delegated(log, name)
        parked = await log.find("me", name)
        assert parked is not None
        final = new(name)
        final.status.state = WAITING
        await log.rest(parked.ownership, (EventRecord(2, 2, ended(name, WAITING)),), final)
    for name, delegation in (("kept", None), ("replaced", Delegation("next", 200, "replaced"))):
        stored = await log.find("me", name)
        assert stored is not None
        record = EventRecord(3, 3, Message(message_id="m2", role=Role.ROLE_USER))
        answer = await log.resume(claim(f"{name}-on"), stored, (record,), delegation=delegation)
        assert isinstance(answer, AcceptedClaim)
    assert await log.delegation("me", "kept") == Delegation("of-kept", 100, "kept")
    assert await log.delegation("me", "replaced") == Delegation("next", 200, "replaced")


async def test_expired_delegation_loses_its_token_and_stays(log: TaskLog, clock: SettableClock) -> None:
    """Without it, the task would look like one in which the agent acts for itself."""
    await delegated(log, "forgotten", expires_at=10_000_000)
    await log.forget("me")
    await accepted(log, "forgotten")
    assert await log.delegation("me", "forgotten") is None
    await delegated(log, "early", expires_at=5)
    await delegated(log, "later", expires_at=20, at_ns=5 * SECOND)
    assert await log.delegation("me", "early") == Delegation("", 5, "early")
    assert await log.delegation("me", "later") == Delegation("of-later", 20, "later")
    clock.seconds = 20.0
    await log.sweep(0)
    assert await log.delegation("me", "later") == Delegation("", 20, "later")
    await log.forget("me")
    await accepted(log, "later")
    assert await log.delegation("me", "later") is None


async def test_accept_refuses_an_id_that_the_owner_has_used(log: TaskLog) -> None:
    """The refused message leaves nothing behind, and it may be sent again with another id."""
    await delegated(log, "t")
    again = Delegation("second", 100, "t")
    assert await log.accept(claim("second"), new("t"), at_ns=2, delegation=again) == TaskIdInUse()
    assert await log.known(claim("second")) is None
    assert await log.delegation("me", "t") == Delegation("of-t", 100, "t")
    assert isinstance(await log.accept(claim("second"), new("u"), at_ns=3), AcceptedClaim)
    await accepted(log, "t", owner="you")


async def test_accept_takes_one_task_under_a_name(log: TaskLog) -> None:
    assert await log.has_accepted("first") is False
    answers = await asyncio.gather(
        *(log.accept(claim(name), new(name), at_ns=1, dedup_key="first") for name in ("t", "u")),
        log.accept(claim("v"), new("v"), at_ns=1, dedup_key="second"),
    )
    assert answers[1] == DuplicateClaim("t")
    assert [isinstance(each, AcceptedClaim) for each in answers] == [True, False, True]
    assert await log.has_accepted("first") is True
    assert await log.find("me", "u") is None


@pytest.mark.parametrize("deletes", ["sweep", "forget"])
async def test_accepted_name_outlives_its_task(log: TaskLog, restart: Restart, deletes: str) -> None:
    answer = await log.accept(claim("t"), new("t"), at_ns=1, dedup_key="first")
    assert isinstance(answer, AcceptedClaim)
    final = new("t")
    final.status.state = COMPLETED
    await log.rest(answer.ownership, (EventRecord(2, 9, ended("t")),), final)
    if deletes == "sweep":
        assert await log.sweep(10) == 1
    else:
        await log.forget("me")
    reopened = (await restart()).log
    assert await reopened.find("me", "t") is None
    assert await reopened.has_accepted("first") is True
    assert await reopened.accept(claim("u"), new("u"), at_ns=20, dedup_key="first") == DuplicateClaim("t")


async def test_refused_acceptance_keeps_no_name(log: TaskLog) -> None:
    await finished(log, "waits", WAITING)
    refused = await log.accept(claim("t"), new("t"), at_ns=1, most_waiting=1, dedup_key="first")
    assert refused == TooManyWaitingTasks()
    assert await log.has_accepted("first") is False
