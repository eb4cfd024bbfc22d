"""Recovery from a crash at every write of a conversation.

A killed process leaves its files in their state at that moment. One run takes a snapshot of the files before and after
each write. A new process then starts from every snapshot.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from tests.support.agent.operator_client import TOKEN, Operator, operator_document

from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database

pytestmark = pytest.mark.starts_first

FILES = (schema.FILE, "tasks.db")
GATED = {"approvals": {"tools": ["house__charge_card"]}}


@dataclass
class Photograph:
    folder: Path
    effects: int


@dataclass
class Camera:
    """A recorder of snapshots of the memory before and after every write."""

    memory: Path
    into: Path
    ledger: list[str]
    taken: list[Photograph] = field(default_factory=list)
    shots: Iterator[int] = field(default_factory=count)

    def shoot(self) -> None:
        folder = self.into / f"{next(self.shots):03}"
        folder.mkdir(parents=True)
        for name in FILES:
            if (self.memory / name).exists():
                with sqlite3.connect(self.memory / name) as source, sqlite3.connect(folder / name) as target:
                    source.backup(target)
                source.close()
                target.close()
        self.taken.append(Photograph(folder, len(self.ledger)))


class PhotographedConnection:
    """A connection that takes a snapshot before and after each commit that changes the file."""

    def __init__(self, connection, camera) -> None:
        self._connection = connection
        self._camera = camera
        self._changes = connection.total_changes

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *values):
        if statement != "COMMIT" or self._connection.total_changes == self._changes:
            return self._connection.execute(statement, *values)
        self._changes = self._connection.total_changes
        self._camera.shoot()
        done = self._connection.execute(statement)
        self._camera.shoot()
        return done


class Photographed(Database):
    def __init__(self, memory: Path, camera: Camera) -> None:
        # Each write has its own commit, so a crash can separate any two writes.
        super().__init__(memory / schema.FILE, schema.SCHEMA, most=1)
        self._camera = camera

    def _open(self):
        return PhotographedConnection(super()._open(), self._camera)


async def finished(guest, task, states):
    """Return the task when it ends; answer each of its questions with yes."""
    while True:
        found = await guest.rested(task)
        if states(found) != "input-required":
            return found
        await guest.say("yes", taskId=task["id"])


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        pytest.param("Book table for 4", {}, id="a tool", marks=pytest.mark.exhaustive),
        pytest.param("Charge the card 30; book table for 4 [[together]]", GATED, id="two tools, of which one waits"),
    ],
)
async def test_r1_every_crash_point_ends_the_task_with_effects_once(
    agent, states, house, mounted, tmp_path_factory, text, changes
):
    """After a crash at any write the task comes to an end, and no effect happens twice."""
    camera = Camera(mounted.layout.memory, tmp_path_factory.mktemp("photographs"), house.ledger)
    async with agent(conversations=Photographed(mounted.layout.memory, camera), **changes) as guest:
        task = await guest.say(text)
        done = await finished(guest, task, states)
        assert states(done) == "completed"
    effects = len(house.ledger)
    ends = []
    for number, photograph in enumerate(camera.taken):
        house.ledger.clear()
        restored(photograph, mounted.layout.memory)
        async with agent(**changes) as guest:
            ended = await finished(guest, task, states) if await exists(guest, task) else None
        if ended is None:
            continue
        # An effect in flight at one snapshot is complete by the next snapshot.
        arrived = camera.taken[min(number + 1, len(camera.taken) - 1)].effects
        assert len(house.ledger) + arrived <= effects, f"photograph {number}"
        ends.append(states(ended))
        if ends[-1] == "completed":
            assert len(house.ledger) + arrived == effects, f"photograph {number}"
        else:
            assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
    assert len(ends) > 8
    assert ends.count("failed") < len(ends) / 2, ends


async def decided(guest, task, states):
    """Return the task when it ends. The operator delivers each approval, with other arguments, until it is accepted."""
    while True:
        found = await guest.rested(task)
        if states(found) != "input-required":
            return found
        for approval in await Operator(guest.url).open():
            assert (await Operator(guest.url).decide(approval, arguments={"amount": 12})).status_code == 200


async def test_r1_every_crash_point_runs_a_decided_call_once(agent, states, house, mounted, tmp_path_factory):
    """After a crash at any write, the edited arguments run once. The arguments of the model never run."""
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN))
    camera = Camera(mounted.layout.memory, tmp_path_factory.mktemp("photographs"), house.ledger)
    async with agent(conversations=Photographed(mounted.layout.memory, camera), **GATED) as guest:
        task = await guest.say("Charge the card 30")
        assert states(await decided(guest, task, states)) == "completed"
    assert house.ledger == ["charged 12"]
    ends = []
    for number, photograph in enumerate(camera.taken):
        house.ledger.clear()
        restored(photograph, mounted.layout.memory)
        async with agent(**GATED) as guest:
            ended = await decided(guest, task, states) if await exists(guest, task) else None
        if ended is None:
            continue
        arrived = camera.taken[min(number + 1, len(camera.taken) - 1)].effects
        assert set(house.ledger) <= {"charged 12"}, f"photograph {number}"
        assert len(house.ledger) + arrived <= 1, f"photograph {number}"
        ends.append(states(ended))
        if ends[-1] == "completed":
            assert len(house.ledger) + arrived == 1, f"photograph {number}"
        else:
            assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
    assert len(ends) > 6
    assert ends.count("failed") < len(ends) / 2, ends


async def exists(guest, task):
    return "result" in await guest.call("GetTask", {"id": task["id"]})


def restored(photograph, memory):
    for name in FILES:
        for suffix in ("", "-wal", "-shm"):
            (memory / f"{name}{suffix}").unlink(missing_ok=True)
        if (photograph.folder / name).exists():
            (memory / name).write_bytes((photograph.folder / name).read_bytes())
