"""Waits of tests: each has a description and a ceiling, and its failure shows the last state that was seen.

A test waits for a state, never for a time. A ceiling ends a hang; see `tests.support.machine`.
"""

import asyncio
import contextlib
import inspect
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from tests.support.machine import LONGEST_SECONDS, MARGIN, ceiling

T = TypeVar("T")
PROMISED_SECONDS = LONGEST_SECONDS / MARGIN
"""The promised duration of a step for which no document promises a shorter one."""
_LONGEST_STATE = 4000


class NotInTimeError(AssertionError):
    """A wait reached its ceiling."""


def _not_in_time(what: str, seconds: float, last_seen: object) -> NotInTimeError:
    shown = repr(last_seen) if not isinstance(last_seen, str) else last_seen
    return NotInTimeError(f"not within {seconds:.0f} s: {what}; last seen: {shown[-_LONGEST_STATE:]}")


def wait_until(
    condition: Callable[[], T],
    what: str,
    *,
    promised: float = PROMISED_SECONDS,
    shown: Callable[[], object] | None = None,
    alive: Callable[[], object] = lambda: None,
    pause: float = 0.02,
) -> T:
    """Return the first truthy result of the condition.

    `promised` is the duration in seconds that a user may expect; the wait allows ten times as much. `shown` returns
    the state for the message of a failure; without it, the message has the last result. `alive` raises an error if
    the condition can no longer become true.

    Raises:
        NotInTimeError: if the condition does not become true before the ceiling.
    """
    seconds = ceiling(promised)
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        alive()
        if time.monotonic() > deadline:
            raise _not_in_time(what, seconds, shown() if shown else result)
        time.sleep(pause)
    return result


async def await_until(
    condition: Callable[[], Awaitable[T] | T],
    what: str,
    *,
    promised: float = PROMISED_SECONDS,
    shown: Callable[[], object] | None = None,
    pause: float = 0.01,
) -> T:
    """Return the first truthy result of the condition, a function or a coroutine function.

    The arguments and the error are those of `wait_until`. The ceiling also interrupts a condition that does not return.
    """
    seconds = ceiling(promised)
    result: T | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                given = condition()
                result = await given if inspect.isawaitable(given) else given
                if result:
                    return result
                await asyncio.sleep(pause)
    except TimeoutError:
        raise _not_in_time(what, seconds, shown() if shown else result) from None


@asynccontextmanager
async def within(
    what: str, *, promised: float = PROMISED_SECONDS, shown: Callable[[], object] | None = None
) -> AsyncIterator[None]:
    """Fail the test if the block does not end before the ceiling: "not within 180 s: the stream ends".

    Raises:
        NotInTimeError: if the ceiling interrupts the block.
    """
    seconds = ceiling(promised)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _not_in_time(what, seconds, shown() if shown else "nothing more") from None


class Program(Protocol):
    """A started program, such as a `subprocess.Popen`."""

    def poll(self) -> int | None: ...


def is_listening(program: Program, port: int) -> bool:
    """Return whether the program accepts connections on this loopback port. Fail if it has ended."""
    assert (code := program.poll()) is None, f"the program has exited with code {code}"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=ceiling()):
        return True
    return False
