"""Requests to the administrators' endpoints of an agent. They are not part of A2A.

An agent accepts them only from the clients that `spec.auth.administrators` names.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.terminal.transport.agent_client import unreachable
from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint, AgentTarget
from fleetwright_cli.terminal.transport.errors import (
    AgentUnauthorized,
    AgentUnreachable,
    NotAdministrator,
    RequestError,
)

Json = dict[str, Any]
_SECONDS: Final = httpx.Timeout(600.0, connect=10.0)
"""An erasure rewrites the databases, which takes long for a large memory."""
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503
_REMEDY: Final = "name the client in spec.auth.administrators of the Agent, or choose another one with --client"


class AdminClient:
    """Sends requests to the agent of an endpoint with the token of an administrator."""

    def __init__(self, endpoint: AgentEndpoint, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Args: `transport` replaces the network."""
        self.endpoint = endpoint
        self._target: AgentTarget | None = None
        # The address is the user's own, so proxies and netrc files of the environment do not apply.
        self._http = httpx.AsyncClient(timeout=_SECONDS, trust_env=False, transport=transport)

    async def close(self) -> None:
        await self._http.aclose()
        await self.endpoint.close()

    async def lines(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a response (NDJSON) as they arrive, without their ends. Raises: TransportError."""
        async with self._response("GET", path, parameters) as response:
            rest = b""
            async for piece in response.aiter_bytes():
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    yield line
            if rest:
                yield rest

    async def call(self, method: str, path: str, parameters: Mapping[str, str]) -> Json:
        """Return the JSON object of a response. Raises: TransportError."""
        async with self._response(method, path, parameters) as response:
            try:
                document = read_json(await response.aread())
            except ValueError:
                document = None
        if not isinstance(document, dict):
            raise RequestError(f"the agent answered {path} with something else than a JSON object")
        return document

    @asynccontextmanager
    async def _response(self, method: str, path: str, parameters: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        target = self._target = self._target or await self.endpoint.open()
        url = f"{target.url.rstrip('/')}{path}"
        headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
        try:
            async with self._http.stream(method, url, params=dict(parameters), headers=headers) as response:
                if not response.is_success:
                    raise _refusal(response.status_code, await response.aread())
                yield response
        except httpx.RequestError as error:
            raise unreachable(target, error) from None


def _refusal(status: int, body: bytes) -> Exception:
    said = _sentence(body)
    if status == _UNAUTHORIZED:
        return AgentUnauthorized("the agent does not accept the token (HTTP 401); check --token-file or --client")
    if status == _FORBIDDEN:
        return NotAdministrator(f"{said or 'The agent refuses this client.'} Remedy: {_REMEDY}")
    if status == _NOT_FOUND:
        return RequestError(said or "the agent has no such endpoint; its image is older than this command", code=status)
    if status == _UNAVAILABLE:
        return AgentUnreachable(said or "the agent cannot use its memory right now; try again")
    return RequestError(said or f"the agent answered with HTTP {status}", code=status)


def _sentence(body: bytes) -> str:
    """Return the message of an error response; empty if it has none."""
    try:
        document = read_json(body)
    except ValueError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
