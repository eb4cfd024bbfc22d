"""Which of the open asks the panel shows, and whether a key may decide it. Pure.

A key decides only the ask that is on the screen, and only once a person could have seen it.
"""

from collections.abc import Callable
from typing import Final

from fleetwright_cli.terminal.model.values import PendingAsk

READY_SECONDS: Final = 0.3
"""The time after which the keys of a new panel count. Until then, a key may be meant for the input."""


class AskFocus:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._chosen: PendingAsk | None = None
        self._painted: PendingAsk | None = None
        self._painted_at = 0.0

    def choose(self, ask: PendingAsk) -> None:
        self._chosen = ask

    def index(self, asks: tuple[PendingAsk, ...]) -> int:
        """Return the place of the chosen ask, or the first one if it does not wait any more."""
        return asks.index(self._chosen) if self._chosen in asks else 0

    def painted(self, asks: tuple[PendingAsk, ...]) -> None:
        """Note which ask is on the screen now. Pass no asks if the panel shows something else."""
        shown = asks[self.index(asks)] if asks else None
        if shown != self._painted:
            self._chosen = self._painted = shown
            self._painted_at = self._clock()

    def opened(self, ask: PendingAsk) -> None:
        """Restart the delay of an ask that has opened again before the next frame."""
        if ask == self._painted:
            self._painted = None

    def ready(self, asks: tuple[PendingAsk, ...]) -> PendingAsk | None:
        """Return the ask that has been on the screen for long enough, or None."""
        shown = asks[self.index(asks)] if asks else None
        seen = shown == self._painted and self._clock() - self._painted_at >= READY_SECONDS
        return shown if seen else None
