"""The client of a workspace's runner over HTTP. It connects only to the configured host and follows no redirect."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import httpx

from fleetwright_a2a.outbound.bounded_responses import BoundedTransport
from fleetwright_a2a.outbound.pinned_http import PinnedTransport
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.tools.port import ToolError
from fleetwright_agent.tools.workspace.runner import UNREACHABLE, RunnerError, RunnerUnavailable

_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 60.0
_SILENCE_SECONDS: Final = 20.0
"""The runner sends a heartbeat every five seconds while a command runs."""
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_LINE: Final = 1024 * 1024
_MOST_MESSAGE: Final = 2000
_UNKNOWN: Final = "the connection to the workspace broke, so it is unknown whether this call took effect; check before"


class HttpWorkspaceRunner:
    def __init__(self, url: str, layout: Layout, client: httpx.AsyncClient) -> None:
        """Args: `client` connects to the runner; `runner_client` builds it. This class closes it."""
        self._url = url.rstrip("/")
        self._layout = layout
        self._client = client

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        async with self._response(name, arguments, read_seconds=_READ_SECONDS) as response:
            return _document(await response.aread())

    async def execute(self, arguments: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        async with self._response("exec", arguments, read_seconds=_SILENCE_SECONDS) as response:
            async for line in _lines(response):
                yield _document(line)

    @asynccontextmanager
    async def _response(
        self, name: str, arguments: Mapping[str, Any], *, read_seconds: float
    ) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(read_seconds, connect=_CONNECT_SECONDS)
        request = self._client.build_request(
            "POST", f"{self._url}/v1/{name}", json=dict(arguments), headers=self._headers(), timeout=timeout
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            raise RunnerUnavailable(UNREACHABLE) from None
        except httpx.HTTPError:
            raise ToolError(f"{_UNKNOWN} you repeat it") from None
        try:
            if response.status_code != HTTPStatus.OK:
                raise _refusal(response.status_code, await response.aread())
            yield response
        except httpx.HTTPError:
            raise ToolError(f"{_UNKNOWN} you repeat it") from None
        finally:
            await response.aclose()

    def _headers(self) -> dict[str, str]:
        try:
            token = self._layout.workspace_token_file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            token = ""
        if not token:
            raise RunnerUnavailable("this agent holds no credential for its workspace; go on without it")
        return {"Authorization": f"Bearer {token}"}


def runner_client(url: str, *, denied: tuple[Network, ...] = ()) -> httpx.AsyncClient:
    """Return a client that follows no redirect and connects only to the host of this URL."""
    pinned = PinnedTransport(EgressPolicy.declared([url], denied=denied))
    transport = BoundedTransport(pinned, document=_MOST_LINE, stream=_MOST_BYTES)
    return httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines of a stream. Raises: ToolError: a line is too long."""
    rest = b""
    async for piece in response.aiter_raw():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MOST_LINE:
            raise ToolError("the workspace sent a line that is too long; go on without it")
        for line in lines:
            if line.strip():
                yield line


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ToolError("the workspace gave an answer that cannot be read; go on without it")
    return document


def _refusal(status: int, body: bytes) -> ToolError:
    try:
        document = json.loads(body)
        error = document["error"]
        code, message = str(error["code"]), str(error["message"])[:_MOST_MESSAGE]
    except (ValueError, RecursionError, TypeError, KeyError):
        return RunnerUnavailable(UNREACHABLE)
    if status == HTTPStatus.UNAUTHORIZED:
        return RunnerUnavailable("the workspace does not accept this agent's credential; go on without it")
    if code == "executor_lost":
        return ToolError(f"{_UNKNOWN} you repeat it")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return RunnerUnavailable(f"the workspace cannot do this at the moment ({message}); go on without it")
    return RunnerError(code, message, {key: value for key, value in document.items() if key != "error"})
