"""The contract of the stored sessions."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fleetwright_agent.storage.sessions import Session
from fleetwright_agent.storage.storage import Storage


def exchange(context: str, text: str, at: float) -> Callable[[Session | None], Session]:
    def change(known: Session | None) -> Session:
        exchanges = known.exchanges if known else []
        return Session(context, [*exchanges, [text, "ok"]], at)

    return change


async def stored(storage: Storage, context: str, text: str, at: float, *, owner: str = "a", most: int = 10) -> None:
    await storage.sessions.written(storage.sessions.put(owner, context, exchange(context, text, at), most=most))


async def test_put_changes_the_stored_row(storage: Storage) -> None:
    await stored(storage, "c", "one", 1.0)
    await stored(storage, "c", "two", 2.0)
    assert await storage.sessions.of("a", "c") == [Session("c", [["one", "ok"], ["two", "ok"]], 2.0)]


async def test_newest_sees_rows_whose_commit_is_pending(storage: Storage) -> None:
    writing = storage.sessions.put("a", "c", exchange("c", "one", 1.0), most=10)
    assert [each.context_id for each in await storage.sessions.newest("a", but="d", most=5)] == ["c"]
    await writing


async def test_newest_leaves_out_one_conversation_and_other_owners(storage: Storage) -> None:
    for at, context in enumerate(("c", "d", "e", "f")):
        await stored(storage, context, "x", float(at))
    await stored(storage, "g", "x", 9.0, owner="b")
    assert [each.context_id for each in await storage.sessions.newest("a", but="f", most=2)] == ["e", "d"]
    assert [each.context_id for each in await storage.sessions.of("a")] == ["f", "e", "d", "c"]


async def test_put_keeps_the_newest_rows_of_an_owner(storage: Storage) -> None:
    await stored(storage, "other", "x", 0.0, owner="b", most=2)
    for at, context in enumerate(("c", "d", "e")):
        await stored(storage, context, "x", float(at), most=2)
    assert [each.context_id for each in await storage.sessions.of("a")] == ["e", "d"]
    assert len(await storage.sessions.of("b")) == 1


async def test_failed_change_leaves_the_row_and_is_reported(storage: Storage) -> None:
    await stored(storage, "c", "one", 1.0)

    def fails(_: Session | None) -> Session:
        raise ValueError("broken")

    writing = storage.sessions.put("a", "c", fails, most=10)
    await storage.sessions.written(writing)
    with pytest.raises(ValueError, match="broken"):
        await writing
    assert [each.updated for each in await storage.sessions.of("a")] == [1.0]


async def test_expire_deletes_rows_not_updated_since(storage: Storage) -> None:
    await stored(storage, "c", "x", 1.0)
    await stored(storage, "d", "x", 2.0)
    assert await storage.sessions.oldest() == 1.0
    await storage.sessions.expire(2.0)
    assert [each.context_id for each in await storage.sessions.of("a")] == ["d"]
    assert await storage.sessions.oldest() == 2.0
    await storage.sessions.expire(3.0)
    assert await storage.sessions.oldest() is None


async def test_stored_rows_do_not_share_values_with_callers(storage: Storage) -> None:
    await stored(storage, "c", "one", 1.0)
    (found,) = await storage.sessions.of("a")
    replace(found).exchanges.append(["changed", "outside"])
    assert len((await storage.sessions.of("a"))[0].exchanges) == 1
