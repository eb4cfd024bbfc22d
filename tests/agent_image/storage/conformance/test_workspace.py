"""The contract of what a conversation knows of its workspace: read files and todos."""

import pytest
from tests.agent_image.storage.conformance.conftest import Restart, SettableClock, Stores

from fleetwright_agent.storage.conversations import SideThread, conversation
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.workspace import MOST_EDITS, MOST_FILES, FileVersion, Todo, WorkspaceRecord

OLD, NEW = FileVersion("one", 1), FileVersion("two", 1_764_000_000_123_456_789)
ITEM = Todo("1", "write a test", "in_progress", "high")


async def test_workspace_keeps_the_version_read_last(storage: Storage) -> None:
    assert await storage.workspace.last_read("a", "c", "x.py") is None
    storage.workspace.record_read("a", "c", "x.py", OLD)
    storage.workspace.record_read("a", "c", "x.py", NEW)
    assert await storage.workspace.last_read("a", "c", "x.py") == NEW


@pytest.mark.parametrize(("owner", "context", "path"), [("b", "c", "x.py"), ("a", "d", "x.py"), ("a", "c", "y.py")])
async def test_workspace_versions_belong_to_a_conversation(
    storage: Storage, owner: str, context: str, path: str
) -> None:
    await storage.workspace.record_read("a", "c", "x.py", OLD)
    assert await storage.workspace.last_read(owner, context, path) is None


async def test_workspace_lists_recent_files_newest_first(storage: Storage) -> None:
    for path in ("x", "y", "z", "x"):
        storage.workspace.record_read("a", "c", path, OLD)
    assert await storage.workspace.recent("a", "c", most=2) == ["x", "z"]


async def test_workspace_drops_the_oldest_of_too_many_files(storage: Storage) -> None:
    for number in range(MOST_FILES):
        storage.workspace.record_read("a", "c", f"{number}", OLD)
    for _ in range(3):
        storage.workspace.record_read("a", "c", "0", NEW)
    assert await storage.workspace.last_read("a", "c", "1") == OLD
    storage.workspace.record_read("a", "c", "one more", OLD)
    assert await storage.workspace.last_read("a", "c", "1") is None
    assert len(await storage.workspace.recent("a", "c", most=2 * MOST_FILES)) == MOST_FILES


async def test_workspace_survives_a_restart(stores: Stores, restart: Restart) -> None:
    await stores.storage.workspace.record_read("a", "c", "x.py", NEW)
    await stores.storage.workspace.put_todos("a", "c", [ITEM])
    after = (await restart()).storage
    assert await after.workspace.last_read("a", "c", "x.py") == NEW
    assert await after.workspace.todos("a", "c") == [ITEM]


async def test_begun_edits_belong_to_a_conversation(storage: Storage) -> None:
    await storage.workspace.begin_edit("a", "c", "call", "one")
    await storage.workspace.begin_edit("a", "c", "call", "two")
    assert await storage.workspace.intended_digest("a", "c", "call") == "two"
    assert await storage.workspace.intended_digest("a", "d", "call") is None
    assert await storage.workspace.intended_digest("a", "c", "other") is None


async def test_begun_edits_drop_the_oldest_of_too_many(storage: Storage, clock: SettableClock) -> None:
    for number in range(MOST_EDITS + 1):
        clock.seconds += 1
        await storage.workspace.begin_edit("a", "c", f"{number}", "one")
    assert await storage.workspace.intended_digest("a", "c", "0") is None
    assert await storage.workspace.intended_digest("a", "c", "1") == "one"


async def test_todos_are_replaced_as_a_whole(storage: Storage) -> None:
    assert await storage.workspace.todos("a", "c") == []
    await storage.workspace.put_todos("a", "c", [ITEM, Todo("2", "x", "pending", "low")])
    await storage.workspace.put_todos("a", "c", [ITEM])
    assert await storage.workspace.todos("a", "c") == [ITEM]
    assert await storage.workspace.todos("a", "d") == []


async def fill(storage: Storage) -> None:
    for owner, context in (("a", "c"), ("a", "d"), ("b", "c")):
        await storage.workspace.record_read(owner, context, f"{owner}/{context}", OLD)
    await storage.workspace.put_todos("a", "e", [ITEM])


@pytest.mark.parametrize(
    ("context", "found"),
    [
        (
            "",
            [
                WorkspaceRecord("c", ("a/c",), ()),
                WorkspaceRecord("d", ("a/d",), ()),
                WorkspaceRecord("e", (), (ITEM,)),
            ],
        ),
        ("d", [WorkspaceRecord("d", ("a/d",), ())]),
        ("none", []),
    ],
)
async def test_workspace_exports_the_data_of_an_owner(
    storage: Storage, context: str, found: list[WorkspaceRecord]
) -> None:
    await fill(storage)
    assert await storage.workspace.of("a", context) == found


@pytest.mark.parametrize(("context", "left"), [("", []), ("c", ["d", "e"])])
async def test_erasure_deletes_the_workspace_data(storage: Storage, context: str, left: list[str]) -> None:
    await fill(storage)
    await storage.owners.erase(ErasureTarget("a", context), tasks=())
    assert [each.context_id for each in await storage.workspace.of("a")] == left
    assert len(await storage.workspace.of("b")) == 1


async def test_workspace_data_is_copied_with_its_thread(storage: Storage) -> None:
    await fill(storage)
    await storage.checkpoints().acopy_thread(conversation("a", "c"), SideThread("a", "c", "t").thread)
    assert [each.context_id for each in await storage.workspace.of("a")] == ["c", "d", "e"]
    await storage.conversations.forget([("a", "c"), ("a", "d"), ("a", "e")])
    assert await storage.workspace.of("a") == []
