"""The contract of the calls with which an agent asked other agents."""

from dataclasses import replace
from typing import Any

import pytest
from tests.agent_image.storage.conformance.conftest import Restart

from fleetwright_agent.storage.open_questions import (
    MOST_ENDED_CALLS,
    MOST_UNFINISHED_CALLS,
    PeerCall,
    PeerCallStatus,
)
from fleetwright_agent.storage.storage import Storage

PENDING, DISPATCHED, COMPLETED, FAILED = PeerCallStatus


def call(name: str, owner: str = "a", context_id: str = "c", **more: Any) -> PeerCall:
    return PeerCall(name, owner, context_id, "t", "n/cook", "boil", **{"began_at": 1.0, **more})


def ended(name: str, at: float) -> PeerCall:
    return call(name, status=COMPLETED, peer_task_id="remote", result="eggs", ended_at=at)


async def names(storage: Storage, *place: str) -> list[str]:
    return [each.id for each in await storage.peer_calls.of(*place)]


async def test_call_is_kept_over_a_restart(storage: Storage, restart: Restart) -> None:
    assert await storage.peer_calls.begin(call("1")) == call("1")
    await storage.peer_calls.update(ended("1", 2.0))
    later = (await restart()).storage
    assert await later.peer_calls.of() == [ended("1", 2.0)]


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        pytest.param([], ["4", "3", "2", "1"], id="all"),
        pytest.param(["a"], ["3", "2", "1"], id="of an owner"),
        pytest.param(["a", "c"], ["3", "1"], id="of a conversation"),
        pytest.param(["x"], [], id="of another owner"),
    ],
)
async def test_calls_are_listed_newest_first(storage: Storage, place: list[str], wanted: list[str]) -> None:
    for each in (call("1"), call("2", context_id="d"), call("3"), call("4", owner="b")):
        await storage.peer_calls.begin(each)
    assert await names(storage, *place) == wanted


async def test_repeated_call_keeps_its_record(storage: Storage) -> None:
    await storage.peer_calls.begin(call("1"))
    await storage.peer_calls.begin(call("2"))
    await storage.peer_calls.update(ended("1", 2.0))
    again = await storage.peer_calls.begin(call("1", began_at=3.0))
    assert again == call("1", peer_task_id="remote")
    assert await storage.peer_calls.of() == [call("2"), again]


async def test_update_changes_only_the_course_of_a_call(storage: Storage) -> None:
    await storage.peer_calls.begin(call("1"))
    changed = call("1", owner="b", context_id="d", began_at=9.0, peer_task_id="remote", status=DISPATCHED, result="?")
    await storage.peer_calls.update(replace(changed, task_id="u", request="fry", peer="n/desk"))
    wanted = call("1", peer_task_id="remote", status=DISPATCHED, result="?")
    assert await storage.peer_calls.of() == [replace(wanted, task_id="u")]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([ended("1", 2.0)], id="ended"),
        pytest.param([], id="not stored"),
    ],
)
async def test_update_leaves_other_calls_alone(storage: Storage, before: list[PeerCall]) -> None:
    for each in before:
        await storage.peer_calls.begin(each)
    await storage.peer_calls.update(call("1", status=FAILED, result="late", ended_at=9.0))
    assert await storage.peer_calls.of() == before


async def test_last_ended_calls_are_kept(storage: Storage) -> None:
    """The call that began first ends last, so it stays."""
    for number in range(MOST_ENDED_CALLS + 2):
        await storage.peer_calls.begin(call(str(number)))
    for number in reversed(range(MOST_ENDED_CALLS + 2)):
        await storage.peer_calls.update(ended(str(number), 100.0 - number))
    assert sorted(map(int, await names(storage))) == list(range(MOST_ENDED_CALLS))
    await storage.peer_calls.begin(call("new"))
    assert len(await names(storage)) == MOST_ENDED_CALLS + 1


async def test_unfinished_calls_are_bounded(storage: Storage) -> None:
    await storage.peer_calls.begin(ended("done", 1.0))
    for number in range(MOST_UNFINISHED_CALLS + 2):
        await storage.peer_calls.begin(call(str(number)))
    left = await names(storage)
    assert (len(left), left[0], left[-2:]) == (MOST_UNFINISHED_CALLS + 1, str(MOST_UNFINISHED_CALLS + 1), ["2", "done"])


async def test_old_calls_expire(storage: Storage) -> None:
    assert await storage.peer_calls.oldest() is None
    for each in (call("unfinished", began_at=2.0), ended("ended", 5.0)):
        await storage.peer_calls.begin(each)
    for before, oldest, left in ((5.0, 5.0, ["ended", "unfinished"]), (6.0, None, ["unfinished"])):
        await storage.peer_calls.expire(before)
        assert (await storage.peer_calls.oldest(), await names(storage)) == (oldest, left)


async def test_forgotten_conversation_loses_its_calls(storage: Storage) -> None:
    for each in (call("1"), call("2", context_id="d"), call("3", owner="b")):
        await storage.peer_calls.begin(each)
    await storage.conversations.forget([("a", "c")])
    assert await names(storage) == ["3", "2"]
