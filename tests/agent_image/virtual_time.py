"""An event loop whose clock jumps to the next timer as soon as no socket has anything to say."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

_LOOK_SECONDS = 0.001
"""Real time in which a socket may still have something; then the clock jumps."""


class _Jumping(selectors.DefaultSelector):
    """Args: `now` is the virtual time, in seconds."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(_LOOK_SECONDS if timeout is None else min(timeout, _LOOK_SECONDS))
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
