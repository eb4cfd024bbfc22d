"""Authorizes the requests that read or cancel one task of a peer.

A task may run longer than a token is valid: a token for direct calls lasts five minutes, and the kubelet replaces the
token of a pod. So each request gets new headers. The exchange of tokens caches them, so most requests need no exchange.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import httpx
from a2a.client import ClientCallContext
from a2a.client.errors import A2AClientError

from fleetwright_agent.tools.peers.failures import causes_of, status_of
from fleetwright_agent.tools.port import ToolError

Renew = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers of a request that sends no message. Raises ToolError if the request cannot be authorized."""
_Result = TypeVar("_Result")


class TaskAuthorization:
    def __init__(self, context: ClientCallContext, renew: Renew) -> None:
        """Args: `context` has the headers of the message that begins or continues the task."""
        self._newest = context
        self._renew = renew

    @property
    def newest(self) -> ClientCallContext:
        """The newest headers. Until the first request of `run`, they are those of the message."""
        return self._newest

    async def run(
        self, request: Callable[[ClientCallContext], Awaitable[_Result]], *, renewal_seconds: float | None = None
    ) -> _Result:
        """Send a request with new headers, and send it once more if the peer refuses them (401).

        If `renew` fails, the request is sent with the previous headers, which may still be valid. The gateway may be
        away for a moment, and the exchange replaces a token before it expires. In a task without a principal, `renew`
        does not fail if the gateway issues no token: it then returns headers with the opaque token of this agent.

        Args: `renewal_seconds` is the time limit for getting new headers, or None for no limit.

        Raises:
            ToolError: The peer refused the headers, and this agent gets no others.
        """
        try:
            async with asyncio.timeout(renewal_seconds):
                context = await self._renewed()
        except (ToolError, TimeoutError):
            context = self._newest
        try:
            return await request(context)
        except (httpx.HTTPError, A2AClientError) as error:
            if not any(status_of(each) == httpx.codes.UNAUTHORIZED for each in causes_of(error)):
                raise
        return await request(await self._renewed())

    async def _renewed(self) -> ClientCallContext:
        self._newest = ClientCallContext(service_parameters=dict(await self._renew()))
        return self._newest
