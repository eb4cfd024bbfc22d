"""The client of the approval routes of agents. It reads open questions and delivers decisions.

The addresses are those that kubelets report for pods of the operator's own Deployments. Answers are untrusted: their
size and their duration are limited, and redirects are refused.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from fleetwright_api import names
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.approvals.approval_listing import NOT_SERVED
from fleetwright_operator.approvals.delivery import DeliveryAnswer, Outcome, parse_outcome

logger = logging.getLogger(__name__)
_LISTING_LIMIT: Final = 4 * 1024 * 1024
_ANSWER_LIMIT: Final = 64 * 1024
_PATIENCE: Final = 10.0
"""Seconds for an answer, in addition to the time for which the agent may hold a poll."""
_UNKNOWN_TOKEN: Final = 401
_NO_ROUTE: Final = 404
_ERRORS: Final = (aiohttp.ClientError, TimeoutError, ValueError)


class ApprovalsClient:
    def __init__(self, *, port: int = names.A2A_PORT, patience: float = _PATIENCE) -> None:
        self._port = port
        self._patience = patience
        self._opened: aiohttp.ClientSession | None = None

    async def read(self, pod: CachedObject, tokens: Sequence[str], *, after: str | None, wait: int) -> Any:
        """Return the agent's list, once it differs from the version `after` or after `wait` seconds.

        Return `NOT_SERVED` if the agent does not have the route, and None if it does not answer, or answers with
        another error.
        """
        query = {**({"after": after} if after is not None else {}), "wait": str(wait)}
        url = URL(f"{self._base(pod)}/approvals").with_query(query)
        try:
            async with self._asked("GET", url, tokens, seconds=wait + self._patience) as answer:
                if answer.status == _NO_ROUTE:
                    return NOT_SERVED
                return read_json(await _bounded(answer, _LISTING_LIMIT)) if answer.status == 200 else None
        except _ERRORS as error:
            logger.info("approvals not read", extra={**_about(pod), "why": str(error) or repr(error)})
            return None

    async def deliver(self, pod: CachedObject, tokens: Sequence[str], ask: str, document: Mapping[str, Any]) -> Outcome:
        """Send a decision, and return the agent's answer."""
        url = URL(f"{self._base(pod)}/approvals/{quote(ask, safe='')}/decision", encoded=True)
        try:
            async with self._asked("POST", url, tokens, seconds=self._patience, document=document) as answer:
                return parse_outcome(answer.status, read_json(await _bounded(answer, _ANSWER_LIMIT)))
        except _ERRORS as error:
            logger.info("decision not delivered", extra={**_about(pod), "why": str(error) or repr(error)})
            return Outcome(answer=DeliveryAnswer.NONE, message="the agent did not answer")

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        url: URL,
        tokens: Sequence[str],
        *,
        seconds: float,
        document: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request with the first token that the agent knows. The agent may not know the newest one yet."""
        if not tokens:
            raise ValueError("there are no card keys yet, from which the operator's token is derived")
        # The client's own timeout loses a cancellation that comes at the same time, so asyncio's is used.
        async with asyncio.timeout(seconds):
            for token in tokens:
                headers = {"Authorization": f"Bearer {token}"}
                async with self._session().request(
                    method, url, headers=headers, json=document, allow_redirects=False
                ) as answer:
                    if answer.status != _UNKNOWN_TOKEN or token == tokens[-1]:
                        yield answer
                        return

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            # The callers limit the number of connections.
            connector = aiohttp.TCPConnector(limit=0)
            self._opened = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        return self._opened

    def _base(self, pod: CachedObject) -> str:
        address = pod.projection["podIP"]
        return f"http://{f'[{address}]' if ':' in address else address}:{self._port}"


async def _bounded(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        ValueError: The body is longer than the limit.
    """
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise ValueError(f"the answer is longer than {limit} bytes")
    return bytes(body)


def _about(pod: CachedObject) -> dict[str, str]:
    return {"namespace": pod.namespace, "object": pod.name}
