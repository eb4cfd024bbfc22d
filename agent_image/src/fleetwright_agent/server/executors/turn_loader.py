"""The turn of this process, built by the first task that needs it.

Its modules are heavy: they are imported beside the event loop, and never before the server is ready.
"""

import asyncio
import gc
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from fleetwright_agent.protocol.frames import Leaving, Turn
from fleetwright_agent.server import gc_tuning
from fleetwright_agent.turn.dependencies import Supplies

_ASSEMBLY: Final = "fleetwright_agent.turn.assembly"


class Turns:
    def __init__(self, build: Callable[[], Turn], *, recovers: bool = False) -> None:
        self._build = build
        self.recovers = recovers
        """Whether the turn knows what it had done before the process ended."""
        self._building: asyncio.Future[Turn] | None = None

    async def get(self) -> Turn:
        """A failed attempt is made again by the next task; one whose task was cancelled serves the next."""
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
        """The task goes on no more, and no turn of it said so."""
        turn = await self.get()
        if isinstance(turn, Leaving):
            turn.over(owner, task_id)

    async def aclose(self) -> None:
        building, self._building = self._building, None
        if building is not None:
            with suppress(Exception):  # Whoever asked for it was told.
                await (await building).aclose()


def assembled(supplies: Supplies) -> Callable[[], Turn]:
    """The real turn, as a recipe."""

    def build() -> Turn:
        is_new = _ASSEMBLY not in sys.modules
        assembly = importlib.import_module(_ASSEMBLY)
        if is_new:
            # What the modules consist of stays for good: a collection that walks over all of it holds everybody up.
            gc.collect()
            gc_tuning.settle()
        return cast("Turn", assembly.build_turn(supplies))

    return build
