"""The turn of this process, built by the first task that needs it.

Its modules are heavy: they are imported beside the event loop, and never before the server is ready.
"""

import asyncio
import importlib
from collections.abc import Callable
from typing import cast

from fleetwright_agent.config import AgentConfig, Layout
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.turn.frames import Turn


class Turns:
    def __init__(self, build: Callable[[], Turn]) -> None:
        self._build = build
        self._turn: Turn | None = None
        self._building = asyncio.Lock()

    async def get(self) -> Turn:
        """A failed attempt is made again by the next task."""
        async with self._building:
            if self._turn is None:
                self._turn = await asyncio.to_thread(self._build)
            return self._turn

    async def aclose(self) -> None:
        if self._turn is not None:
            await self._turn.aclose()
            self._turn = None


def assembled(config: AgentConfig, layout: Layout, metrics: Metrics) -> Callable[[], Turn]:
    """The real turn, as a recipe."""

    def build() -> Turn:
        assembly = importlib.import_module("fleetwright_agent.turn.assembly")
        return cast("Turn", assembly.build_turn(config, layout, metrics))

    return build
