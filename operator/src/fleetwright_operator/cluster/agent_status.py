"""Reads `:7871/status` of running agents, a few at a time, soon after they start and then once a minute.

The addresses are those that kubelets report for pods of our own Deployments, never one that stands in a spec.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

import aiohttp

from fleetwright_operator import names
from fleetwright_operator.cluster.entry import Entry

logger = logging.getLogger(__name__)
_LIMIT = 64 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=3)
_AT_ONCE = 8


class AgentStatusReader:
    def __init__(
        self,
        pods: Callable[[], Iterable[Entry]],
        *,
        on_status: Callable[[Entry, Any], None],
        every: float = 60.0,
        look: float = 5.0,
        clock: Callable[[], float],
        port: int = names.OPS_PORT,
    ) -> None:
        """`pods` are all pods of ours; `on_status` hears (pod, parsed JSON)."""
        self._pods = pods
        self._on_status = on_status
        self._every = every
        self._look = look
        self._clock = clock
        self._port = port
        self._due: dict[str, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                await self.read_due(session)
                await asyncio.sleep(self._look)

    async def read_due(self, session: aiohttp.ClientSession) -> None:
        ready = {pod.uid: pod for pod in self._pods() if _is_ready_agent(pod)}
        self._due = {uid: due for uid, due in self._due.items() if uid in ready}
        waiting = [pod for uid, pod in ready.items() if self._due.get(uid, 0.0) <= self._clock()]
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._read(session, pod, gate) for pod in waiting))

    async def _read(self, session: aiohttp.ClientSession, pod: Entry, gate: asyncio.Semaphore) -> None:
        # Jitter: after a restart all agents are due at the same moment.
        self._due[pod.uid] = self._clock() + self._every * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load only
        url = f"http://{pod.facts['podIP']}:{self._port}/status"
        try:
            async with gate, session.get(url, allow_redirects=False) as answer:
                document = json.loads(await _bounded(answer.content)) if answer.status == 200 else None
        # The parser's own limit counts too: whoever nests without end must not end the operator.
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as error:
            why = str(error) or repr(error)
            logger.info("agent status not read", extra={"namespace": pod.namespace, "object": pod.name, "why": why})
            return
        self._on_status(pod, document)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """The whole body.

    Raises:
        ValueError: It is longer than any status has reason to be.
    """
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > _LIMIT:
            raise ValueError(f"the status is longer than {_LIMIT} bytes")
    return bytes(body)


def _is_ready_agent(pod: Entry) -> bool:
    conditions = pod.facts.get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not pod.deleting and names.AGENT_LABEL in pod.labels and bool(pod.facts.get("podIP"))
