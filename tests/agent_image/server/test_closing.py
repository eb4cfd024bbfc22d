"""Shutdown of an agent: a failing step does not stop the later steps."""

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleetwright_agent.app import create_app
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.storage import sqlite_storage


class Breaks(Database):
    async def aclose(self) -> None:
        await super().aclose()
        raise OSError("the volume is gone")


class Answers:
    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncIterator[Frame]:
        yield TurnDone(request.text)

    async def aclose(self) -> None:
        """No resources to release."""


async def test_app_close_continues_after_a_failing_step(mounted: Any) -> None:
    before = set(threading.enumerate())  # other tests of this worker may leave threads behind
    conversations = Breaks(mounted.layout.memory / schema.FILE, schema.SCHEMA)
    storage = sqlite_storage(mounted.layout.memory, conversations=conversations)
    app = create_app(mounted.config(), layout=mounted.layout, turn=Answers(), storage=storage)
    await app.start()
    await app.drain()
    with pytest.raises(OSError, match="the volume is gone"):
        await app.aclose()
    names = {thread.name for thread in {*threading.enumerate()} - before}
    assert not any(name.startswith(("task-log", "sqlite-conversations")) for name in names), names
