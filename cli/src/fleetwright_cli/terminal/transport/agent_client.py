"""A client of one A2A 1.0 agent: JSON-RPC over HTTP, and streams of events.

A stream that is silent for 45 seconds is lost, because agents send a comment every 15 seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from uuid import uuid4

import httpx

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.terminal.transport.agent_card import CARD_PATH, CardSummary, card_summary
from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint, AgentTarget
from fleetwright_cli.terminal.transport.errors import AgentUnauthorized, AgentUnreachable, RequestError
from fleetwright_cli.terminal.transport.sse import EventTooLong, SseDecoder

Json = dict[str, Any]
SILENCE_SECONDS: Final = 45.0
_CONNECT_SECONDS: Final = 10.0
_CALL_SECONDS: Final = 60.0
_LARGEST: Final = 64 * 1024 * 1024
_UNAUTHORIZED: Final = frozenset({401, 403})
_FIRST_SERVER_ERROR: Final = 500


class AgentClient:
    """Sends requests to the agent of an endpoint. `renew` must be called after `AgentUnreachable`."""

    def __init__(
        self,
        endpoint: AgentEndpoint,
        *,
        silence: float = SILENCE_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Args: `transport` replaces the network."""
        self.endpoint = endpoint
        self._target: AgentTarget | None = None
        self._card: CardSummary | None = None
        self._opening = asyncio.Lock()
        self.generation = 0
        """The number of renewals. Several streams may lose one connection, and only the first renews it."""
        self._stream_timeout = httpx.Timeout(silence, connect=_CONNECT_SECONDS)
        # The address is the user's own, so proxies and netrc files of the environment do not apply.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(_CALL_SECONDS, connect=_CONNECT_SECONDS),
            trust_env=False,
            transport=transport,
            limits=httpx.Limits(max_connections=None),
        )

    async def close(self) -> None:
        await self._http.aclose()
        await self.endpoint.close()

    async def renew(self, generation: int) -> None:
        """Forget the address, so that the next request opens it again.

        Args: `generation` is the one in which the connection was lost.
        """
        async with self._opening:
            if generation == self.generation:
                self.generation += 1
                self._target = None
                self._card = None
                await self.endpoint.renew()

    async def card(self) -> CardSummary:
        """Return the agent's card. Raises: TransportError."""
        if self._card is None:
            target = await self._opened()
            try:
                response = await self._http.get(f"{target.url.rstrip('/')}{CARD_PATH}", headers=_headers(target))
            except httpx.RequestError as error:
                raise unreachable(target, error) from None
            _check(response)
            try:
                document = read_json(response.content)
            except ValueError:
                document = None
            self._card = card_summary(document, address=target.url)
        return self._card

    def send(self, message: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> AsyncIterator[Json]:
        """Send a message, and yield the events of its task. Raises: TransportError."""
        params: Json = {"message": dict(message)}
        if metadata:
            params["metadata"] = dict(metadata)
        return self._stream("SendStreamingMessage", params)

    def subscribe(self, task_id: str) -> AsyncIterator[Json]:
        """Yield a running task, and then its events. Raises: TransportError."""
        return self._stream("SubscribeToTask", {"id": task_id})

    async def get(self, task_id: str) -> Json:
        """Return a task with its history and artifacts. Raises: TransportError."""
        return await self._call("GetTask", {"id": task_id})

    async def cancel(self, task_id: str) -> Json:
        """Cancel a task, and return it. Raises: TransportError."""
        return await self._call("CancelTask", {"id": task_id})

    async def tasks(self, **params: Any) -> Json:
        """Return one page of tasks. Raises: TransportError."""
        return await self._call("ListTasks", params)

    async def _opened(self) -> AgentTarget:
        async with self._opening:
            if self._target is None:
                self._target = await self.endpoint.open()
            return self._target

    async def _call(self, method: str, params: Json) -> Json:
        card = await self.card()
        target = await self._opened()
        try:
            response = await self._http.post(card.endpoint, json=_envelope(method, params), headers=_headers(target))
        except httpx.RequestError as error:
            raise unreachable(target, error) from None
        _check(response)
        return _result(response.content)

    async def _stream(self, method: str, params: Json) -> AsyncIterator[Json]:
        card = await self.card()
        target = await self._opened()
        headers = _headers(target) | {"Accept": "text/event-stream"}
        body = _envelope(method, params)
        try:
            async with self._http.stream(
                "POST", card.endpoint, json=body, headers=headers, timeout=self._stream_timeout
            ) as response:
                _check(response)
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    yield _result(await response.aread())
                    return
                decoder = SseDecoder()
                async for piece in response.aiter_raw():
                    for data in decoder.feed(piece):
                        yield _result(data)
        except httpx.RequestError as error:
            raise unreachable(target, error) from None
        except EventTooLong as error:
            raise RequestError(str(error)) from None


def _envelope(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}


def _headers(target: AgentTarget) -> dict[str, str]:
    credential = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    return {"A2A-Version": "1.0", "Accept-Encoding": "identity", **credential}


def unreachable(target: AgentTarget, error: httpx.RequestError) -> AgentUnreachable:
    """Return the error for a request without a complete answer."""
    match error:
        case httpx.ReadTimeout():
            what = "no answer from"
        case httpx.TransportError():
            what = "no connection to"
        case _:  # Such as a body that is not compressed as its header says.
            what = "no usable answer from"
    return AgentUnreachable(f"{what} {target.url}")


def _check(response: httpx.Response) -> None:
    status = response.status_code
    if status in _UNAUTHORIZED:
        raise AgentUnauthorized(f"the agent does not accept the token (HTTP {status}); check --token-file")
    if status >= _FIRST_SERVER_ERROR:
        raise AgentUnreachable(f"the agent answered with HTTP {status}; it may be starting")
    if not response.is_success and "json" not in response.headers.get("content-type", ""):
        raise RequestError(f"the agent answered with HTTP {status}; check the address", code=status)


def _result(body: bytes) -> Json:
    """Return the result of a JSON-RPC response. Raises: RequestError."""
    try:
        document = read_json(body) if len(body) <= _LARGEST else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RequestError("the agent sent a response that is not JSON")
    error = document.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        message = str(error.get("message", "unknown error"))
        raise RequestError(message, code=code if isinstance(code, int) else 0)
    result = document.get("result")
    if not isinstance(result, dict):
        raise RequestError("the agent sent a response without a result")
    return result
