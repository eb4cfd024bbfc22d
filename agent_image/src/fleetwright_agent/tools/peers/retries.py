"""Repeats a request that a peer did not answer, because the peer is busy or its pod is being replaced.

A repeated message has the same id, so a peer that received it before returns the task that it has already begun. The
end of the turn cancels the wait.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import httpx
from a2a.client.errors import A2AClientError

from fleetwright_agent.tools.peers.failures import causes_of, is_disconnected

ATTEMPTS: Final = 3
"""The largest number of attempts of one call, for all its requests together."""
_BUSY: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_BUSY_SECONDS: Final = 5.0
_MOST_SECONDS: Final = 15.0
"""The longest wait. A peer that asks for more, such as a suspended one, is not asked again."""
_RESTART_SECONDS: Final = 8.0
_FAILURE: Final = "Fleetwright-Failure"
_SIZE: Final = "size"
"""The gateway's reason for a 502 because of a response that is too large. It would be too large again."""
_log = logging.getLogger(__name__)
Sleep = Callable[[float], Awaitable[None]]
_Result = TypeVar("_Result")


class RequestRetries:
    """The attempts of one call of a peer."""

    def __init__(self, peer: str, sleep: Sleep = asyncio.sleep) -> None:
        """Args: `sleep` waits for a number of seconds."""
        self._peer = peer
        self._sleep = sleep
        self._failed = 0

    async def run(
        self, attempt: Callable[[], Awaitable[_Result]], *, may_repeat: Callable[[], bool] = lambda: True
    ) -> _Result:
        """Return the result of the attempt, which is repeated after a temporary failure.

        Args: `may_repeat` returns False once a part of the response was received.

        Raises: the error of the last attempt.
        """
        while True:
            try:
                return await attempt()
            except (httpx.HTTPError, A2AClientError) as error:
                self._failed += 1
                wait = retry_seconds(error, self._failed)
                if wait is None or self._failed >= ATTEMPTS or not may_repeat():
                    raise
            _log.info("a request to a peer is repeated", extra={"peer": self._peer, "seconds": wait})
            await self._sleep(wait)


def retry_seconds(error: BaseException, failed: int) -> float | None:
    """Return the time until a request is repeated, or None if it is not.

    Args:
        error: The failure.
        failed: The number of failed attempts, with this one.
    """
    for each in causes_of(error):
        if isinstance(each, httpx.HTTPStatusError):
            return _seconds_of(each.response, failed)
    # A name that does not resolve is a wrong address, not a restart.
    if not is_disconnected(error) or any(isinstance(each, socket.gaierror) for each in causes_of(error)):
        return None
    return _RESTART_SECONDS * failed


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds that a response asks to wait, or None if it names no number of seconds."""
    after = response.headers.get("Retry-After", "").strip()
    return float(after) if after.isascii() and after.isdecimal() else None


def _seconds_of(response: httpx.Response, failed: int) -> float | None:
    if response.status_code in _BUSY:
        after = retry_after(response)
        wait = _BUSY_SECONDS * failed if after is None else after
        return wait if wait <= _MOST_SECONDS else None
    if response.status_code == httpx.codes.BAD_GATEWAY and response.headers.get(_FAILURE) != _SIZE:
        return _RESTART_SECONDS * failed
    return None
