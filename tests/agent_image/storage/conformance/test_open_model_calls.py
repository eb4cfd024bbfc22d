"""The contract of the records of model calls that have started and not ended."""

from typing import Any

from tests.agent_image.storage.conformance.conftest import Restart

from fleetwright_agent.storage.storage import Storage


def about(owner: str = "a", task: str = "t") -> dict[str, Any]:
    return {"owner": owner, "task": task, "usage": {"model": "m"}}


async def test_left_returns_calls_of_former_processes(storage: Storage, restart: Restart) -> None:
    storage.open_calls.begin("ended", about())
    storage.open_calls.begin("interrupted", about(task="u"))
    storage.open_calls.end("ended")
    storage.open_calls.end("unknown")
    assert storage.open_calls.left() == {}
    after = (await restart()).storage
    after.open_calls.begin("running", about())
    assert after.open_calls.left() == {"interrupted": about(task="u")}


async def test_left_keeps_calls_until_they_are_ended(storage: Storage, restart: Restart) -> None:
    for call in ("charged", "pending"):
        storage.open_calls.begin(call, about())
    for _ in range(2):
        after = (await restart()).storage
        assert after.open_calls.left().keys() == {"charged", "pending"}
    after.open_calls.end("charged")
    assert after.open_calls.left().keys() == {"pending"}
    last = (await restart()).storage
    assert last.open_calls.left().keys() == {"pending"}
    last.open_calls.end("pending")
    assert (await restart()).storage.open_calls.left() == {}


async def test_erase_renames_the_owner_of_calls_left(storage: Storage, restart: Restart) -> None:
    storage.open_calls.begin("one", about("a"))
    storage.open_calls.begin("two", about("b"))
    after = (await restart()).storage
    after.open_calls.begin("running", about("a"))
    after.open_calls.erase("a", named="(erased)")
    assert after.open_calls.left() == {"one": about("(erased)"), "two": about("b")}
    last = (await restart()).storage
    assert last.open_calls.left() == {"one": about("(erased)"), "two": about("b"), "running": about("a")}
