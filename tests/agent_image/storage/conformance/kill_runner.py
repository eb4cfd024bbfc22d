"""Runs each unit of work again and again, and kills the process before each of its statements.

Each run is a forked process on a copy of the same files. For each unit, the program prints the states that a new
process finds after the runs, as JSON, in the order of the statements. The last run of a unit ends without a kill.
"""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tests.agent_image.storage.conformance.conftest import SettableClock, close, sqlite
from tests.agent_image.storage.conformance.units_of_work import UNITS, Step, UnitOfWork


class Killer:
    """Kills this process before a statement of a transaction, counted from the moment at which it is armed."""

    def __init__(self) -> None:
        self.left: int | None = None
        self._connect = sqlite3.connect
        sqlite3.connect = self._traced

    def _traced(self, *arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*arguments, **named)
        connection.set_trace_callback(self._trace)
        return connection

    def _trace(self, _: str) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def carried_out(folder: Path, step: Step, killer: Killer, *, kill_at: int | None = None) -> Any:
    stores = sqlite(folder, SettableClock())
    await stores.log.open()
    await stores.storage.erasures.unfinished()  # Opens the file before the killer is armed.
    killer.left = kill_at
    found = await step(stores.log, stores.storage)
    killer.left = None
    await close(stores)
    return found


def forked(folder: Path, step: Step, killer: Killer, *, kill_at: int | None = None) -> tuple[bool, Any]:
    """Carry out a step in a process of its own; return whether it was killed, and what it returned."""
    answer = folder.with_suffix(".json")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        found = asyncio.run(carried_out(folder, step, killer, kill_at=kill_at))
        answer.write_text(json.dumps(found))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise SystemExit(f"the step has failed: {status}")
    return status != 0, json.loads(answer.read_text()) if status == 0 else None


def import_modules(folder: Path, unit: UnitOfWork, killer: Killer) -> None:
    """Carry out a unit in this process, so that its forks need not import what it uses."""
    for step in (unit.before, unit.work, unit.state):
        asyncio.run(carried_out(folder, step, killer))


def states_after_kills(folder: Path, unit: UnitOfWork, killer: Killer) -> list[Any]:
    for name in ("imports", "first"):
        (folder / name).mkdir(parents=True)
    import_modules(folder / "imports", unit, killer)
    forked(folder / "first", unit.before, killer)
    states, killed, statement = [], True, 0
    while killed:
        statement += 1
        copy = folder / f"{statement}"
        shutil.copytree(folder / "first", copy)
        killed, _ = forked(copy, unit.work, killer, kill_at=statement)
        states.append(forked(copy, unit.state, killer)[1])
    return states


def main() -> None:
    folder, killer = Path(sys.argv[1]), Killer()
    states = {name: states_after_kills(folder / name, unit, killer) for name, unit in UNITS.items()}
    print(json.dumps(states))  # noqa: T201 - the output of the program


if __name__ == "__main__":
    main()
