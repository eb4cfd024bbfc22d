"""Builds the `Turn` object of this process when the first task needs it, or earlier if the server calls `get`.

Importing the modules of the turn is slow. They are imported in a thread when the turn is built, or while the server
starts if it calls `import_modules`.
"""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, cast, runtime_checkable

from fleetwright_a2a.lazy_import import fast_imports
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.protocol.turn import NO_EDITS, ChecksEdits, Turn
from fleetwright_agent.server import gc_tuning
from fleetwright_agent.turn.dependencies import TurnDependencies

_ASSEMBLY: Final = "fleetwright_agent.turn.assembly"
_import_lock: Final = threading.Lock()


@runtime_checkable
class TaskCleanup(Protocol):
    """A `Turn` that keeps state of a task after its turn has ended."""

    def over(self, owner: str, task_id: str) -> None:
        """Release the state of a task that will not continue."""


class TurnLoader:
    def __init__(
        self, build: Callable[[], Turn], *, recovers: bool = False, imports: Callable[[], None] = lambda: None
    ) -> None:
        """Args: `imports` imports the modules of the turn in any thread. `build` imports them otherwise."""
        self._build = build
        self._imports = imports
        self.recovers = recovers
        """True if the turn can resume work that an earlier process began."""
        self._building: asyncio.Future[Turn] | None = None

    async def import_modules(self) -> None:
        """Import the modules of the turn, so that `get` takes less time. `get` reports a failure."""
        with suppress(Exception):
            await asyncio.to_thread(self._imports)

    async def get(self) -> Turn:
        """Return the turn, and build it if necessary.

        After a failure, the next task builds again. If a task is cancelled during the build, the build continues.
        """
        if self._building is None:
            self._building = asyncio.ensure_future(asyncio.to_thread(self._build))
        building = self._building
        try:
            return await asyncio.shield(building)
        except Exception:
            if self._building is building:
                self._building = None
            raise

    async def over(self, owner: str, task_id: str) -> None:
        """Release the turn's state of a task that ended outside of a turn and will not continue."""
        turn = await self.get()
        if isinstance(turn, TaskCleanup):
            turn.over(owner, task_id)

    async def edit_problem(
        self, request: TurnRequest, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        turn = await self.get()
        if not isinstance(turn, ChecksEdits):
            return NO_EDITS
        return await turn.edit_problem(request, tool, arguments, untyped=untyped)

    async def aclose(self) -> None:
        building, self._building = self._building, None
        if building is not None:
            with suppress(Exception):  # The task that started the build has received the error.
                await (await building).aclose()


def import_turn() -> None:
    """Import the modules of the turn, unless this process has imported them before."""
    with _import_lock:
        if _ASSEMBLY in sys.modules:
            return
        with fast_imports():
            importlib.import_module(_ASSEMBLY)
        # The objects of the imported modules live as long as the process. Freeze them: otherwise each full garbage
        # collection would traverse all of them and block every caller. Do not collect before: that takes a twelfth of
        # the import time, and the imports leave fewer than 2000 unreachable objects.
        gc_tuning.settle()


def load_turn(dependencies: TurnDependencies) -> Callable[[], Turn]:
    """Return a function that builds the real turn."""

    def build() -> Turn:
        import_turn()
        return cast("Turn", importlib.import_module(_ASSEMBLY).build_turn(dependencies))

    return build
