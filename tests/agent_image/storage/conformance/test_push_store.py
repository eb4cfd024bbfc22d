"""The contract of the push store, which every implementation must meet."""

from dataclasses import replace

import pytest
from a2a.types.a2a_pb2 import Task, TaskStatus
from tests.support.agent.push_values import COMPLETED, SECOND, WAITING, begun, due, hook, rest

from fleetwright_a2a.task_events import status_event
from fleetwright_agent.storage.tasks.push_store import Registration, UndeliveredNotification, UnknownTask
from fleetwright_agent.storage.tasks.records import EventRecord, StoredTask
from fleetwright_agent.storage.tasks.task_log import TaskLog


async def test_rest_stores_notifications(log: TaskLog) -> None:
    run, quiet = await begun(log, "t"), await begun(log, "quiet")
    assert await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    assert await due(log) == []
    await rest(log, run, "t")
    await rest(log, quiet, "quiet")
    (letter,) = await due(log)
    assert (letter.owner, letter.registration, letter.attempts) == ("me", hook(), 0)
    assert (letter.task.id, letter.task.status.state) == ("t", COMPLETED)
    await log.pushes.delivered(letter.id)
    assert (await due(log), await log.pushes.next_due_ns(but=())) == ([], None)


async def test_notification_is_put_off_or_given_up(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    await rest(log, run, "t")
    (letter,) = await due(log)
    await log.pushes.put_off(letter.id, until_ns=200)
    assert (await due(log, 199), await log.pushes.next_due_ns(but=())) == ([], 200)
    assert await log.pushes.next_due_ns(but=(letter.id,)) is None
    (again,) = await due(log, 200)
    assert again.attempts == 1
    assert await log.pushes.pending() == 1
    await log.pushes.give_up(letter.id, reason="why", at_ns=300)
    assert await log.pushes.pending() == 0
    assert await due(log, 10_000) == []
    assert await log.pushes.dead(most=5) == (1, (UndeliveredNotification("t", "h:443", "why", 300),))
    await log.sweep(300)
    assert (await log.pushes.dead(most=5))[0] == 0


async def test_due_ignores_times_far_in_the_future(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    await rest(log, run, "t", at_ns=4000 * SECOND)
    assert len(await due(log, 400 * SECOND)) == 1


async def test_due_keeps_the_order_of_each_registration(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook("a"), at_ns=2, most=10)
    await log.pushes.register(run.n, hook("b", "other:443"), at_ns=2, most=10)
    await rest(log, run, "t", WAITING)
    stored = await log.find("me", "t")
    assert isinstance(stored, StoredTask)
    ending = Task(id="t", context_id="c", status=TaskStatus(state=COMPLETED))
    assert await log.end(stored, EventRecord(3, 10, status_event("t", "c", COMPLETED, at_ns=10)), ending)
    letters = await due(log)
    assert [(each.registration.id, each.task.status.state) for each in letters] == [("a", WAITING), ("b", WAITING)]
    await log.pushes.delivered(letters[0].id)
    letters = await due(log)
    assert {(each.registration.id, each.task.status.state) for each in letters} == {("a", COMPLETED), ("b", WAITING)}
    assert [each.registration.id for each in await due(log, hosts_but=("h:443",))] == ["b"]
    assert len(await due(log, but=[each.id for each in letters])) == 0
    assert len(await due(log, most=1)) == 1
    assert (len(await due(log, owners_but=("you",))), await due(log, owners_but=("me",))) == (2, [])


async def test_next_due_ignores_those_behind_an_earlier_one(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook("a"), at_ns=2, most=10)
    await log.pushes.register(run.n, hook("b"), at_ns=2, most=10)
    await rest(log, run, "t", WAITING)
    stored = await log.find("me", "t")
    assert isinstance(stored, StoredTask)
    ending = Task(id="t", context_id="c", status=TaskStatus(state=COMPLETED))
    assert await log.end(stored, EventRecord(3, 10, status_event("t", "c", COMPLETED, at_ns=10)), ending)
    first, other = await due(log)
    await log.pushes.put_off(first.id, until_ns=200)
    await log.pushes.put_off(other.id, until_ns=300)
    assert await log.pushes.next_due_ns(but=()) == 200
    assert await log.pushes.next_due_ns(but=(first.id,)) == 300
    assert await log.pushes.next_due_ns(but=(first.id, other.id)) is None
    await log.pushes.delivered(first.id)
    assert await log.pushes.next_due_ns(but=()) == 10
    await log.pushes.give_up(other.id, reason="why", at_ns=300)
    (_, last) = await due(log)
    await log.pushes.delivered(last.id)
    assert await log.pushes.next_due_ns(but=()) == 10


async def test_register_after_the_end_posts_a_notification(log: TaskLog) -> None:
    ended, paused = await begun(log, "ended"), await begun(log, "paused")
    await rest(log, ended, "ended")
    await rest(log, paused, "paused", WAITING)
    await log.pushes.register(ended.n, hook(), at_ns=50, most=10)
    await log.pushes.register(paused.n, hook(), at_ns=50, most=10)
    assert [each.task.id for each in await due(log)] == ["ended"]


async def test_register_replaces_the_address_of_pending_ones(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook(), at_ns=2, most=1)
    await rest(log, run, "t", WAITING)
    assert not await log.pushes.register(run.n, hook("b"), at_ns=3, most=1)
    assert await log.pushes.register(run.n, hook("a", "moved:443"), at_ns=3, most=1)
    (letter,) = await due(log)
    assert letter.registration.url == "https://moved:443/a"
    assert await log.pushes.registrations(run.n) == (hook("a", "moved:443"),)


async def test_remove_deletes_pending_notifications(log: TaskLog) -> None:
    run, other = await begun(log, "t"), await begun(log, "other")
    await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    await log.pushes.register(other.n, hook(), at_ns=2, most=10)
    assert await log.pushes.listened_to() == {run.n, other.n}
    await rest(log, run, "t")
    await rest(log, other, "other")
    assert await log.pushes.remove(run.n, "a")
    assert not await log.pushes.remove(run.n, "a")
    assert [each.task.id for each in await due(log)] == ["other"]
    await log.sweep(1000)
    assert (await due(log), await log.pushes.listened_to()) == ([], frozenset())


async def test_register_refuses_a_deleted_task(
    log: TaskLog,
) -> None:
    run = await begun(log, "mine")
    await rest(log, run, "mine")
    await log.sweep(1000)
    with pytest.raises(UnknownTask):
        await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    other = await begun(log, "another's")
    assert other.n != run.n
    await rest(log, other, "another's")
    assert (await due(log), await log.pushes.listened_to()) == ([], frozenset())


def sealed(name: str, credentials: bytes) -> Registration:
    return replace(hook(name), sealed=credentials)


@pytest.mark.parametrize(
    ("after", "most", "found"),
    [
        pytest.param((0, ""), 9, [("t", "a"), ("u", "a"), ("u", "b")], id="from the start"),
        pytest.param((0, ""), 2, [("t", "a"), ("u", "a")], id="a full page"),
        pytest.param((1, "a"), 9, [("u", "a"), ("u", "b")], id="the rest"),
        pytest.param((2, "a"), 9, [("u", "b")], id="within a task"),
        pytest.param((2, "b"), 9, [], id="behind the last"),
    ],
)
async def test_sealed_otherwise_returns_other_keys_in_order(
    log: TaskLog, after: tuple[int, str], most: int, found: list[tuple[str, str]]
) -> None:
    one, two = await begun(log, "t"), await begun(log, "u")
    assert (one.n, two.n) == (1, 2)
    for n, registration in (
        (2, sealed("b", b"old:4")),
        (2, sealed("a", b"old:3")),
        (1, sealed("a", b"old:1")),
        (1, sealed("b", b"new:2")),
        (1, sealed("c", b"")),
    ):
        await log.pushes.register(n, registration, at_ns=2, most=9)
    held = await log.pushes.sealed_otherwise(b"new:", after=after, most=most)
    assert [(each.task_id, each.registration.id) for each in held] == found
    assert {each.owner for each in held} <= {"me"}
    assert [each.n for each in held] == [{"t": 1, "u": 2}[each.task_id] for each in held]


async def test_reseal_replaces_the_credentials(log: TaskLog) -> None:
    run = await begun(log, "t")
    await log.pushes.register(run.n, sealed("a", b"old:1"), at_ns=2, most=9)
    await rest(log, run, "t")
    (held,) = await log.pushes.sealed_otherwise(b"new:", after=(0, ""), most=9)
    await log.pushes.reseal(held, b"new:1")
    assert await log.pushes.registrations(run.n) == (sealed("a", b"new:1"),)
    assert await log.pushes.sealed_otherwise(b"new:", after=(0, ""), most=9) == ()
    (letter,) = await due(log)
    assert letter.registration == sealed("a", b"new:1")


async def test_reseal_leaves_a_changed_registration(log: TaskLog) -> None:
    run = await begun(log, "t")
    for name in ("replaced", "removed"):
        await log.pushes.register(run.n, sealed(name, b"old:1"), at_ns=2, most=9)
    held = await log.pushes.sealed_otherwise(b"new:", after=(0, ""), most=9)
    await log.pushes.register(run.n, sealed("replaced", b"old:2"), at_ns=3, most=9)
    await log.pushes.remove(run.n, "removed")
    for each in held:
        await log.pushes.reseal(each, b"new:1")
    assert await log.pushes.registrations(run.n) == (sealed("replaced", b"old:2"),)
