"""An event loop with a virtual clock: when nothing is ready to run, the clock jumps to the next timer."""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
_LOOK_SECONDS = 0.001
"""Real time that the loop waits for a socket or a thread before the clock advances."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the virtual clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """The virtual time, in seconds."""
        self.threads = 0
        """Calls that run in an executor. The clock advances in real time until they return."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        started = time.monotonic()
        ready = super().select(min(timeout, _LOOK_SECONDS) if self._may_hear() else 0)
        if self.threads:
            self.now += time.monotonic() - started
        elif not ready:
            self.now += timeout
        return ready

    def _may_hear(self) -> bool:
        """Return True if a thread or socket may wake the loop. The loop's own pipe is the first entry."""
        return self.threads > 0 or len(self.get_map()) > 1


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _future: asyncio.Future[Any]) -> None:
        self._jumping.threads -= 1


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
