"""Reads `:7871/status` of running agents, a few at a time, soon after they start and then once a minute.

If an agent lacks a server, a tool or a plugin, the reader reads it again after 10 s, 20 s and so on, because servers
often start at the same time as the agent. It reads an agent with `spec.sleep` again when the agent has been idle for
long enough. An agent that was ready and is no longer ready is read as well, because its report may say that its event
loop is blocked. It reads agents that do not answer less and less often, and after all others. The addresses are those
that kubelets report for pods of the operator's own Deployments, never addresses from a spec.
"""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import aiohttp

from fleetwright_api import names
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.deployment import CONTAINER

logger = logging.getLogger(__name__)
_LIMIT = 64 * 1024
_AT_ONCE = 8
_LONGEST_PAUSE = 300.0
_FIRST_PAUSE = 10.0
"""The pause after the first incomplete report. Agents try their unreachable servers again after the same time."""


class StatusResult(NamedTuple):
    """The facts of a status that decide when the agent is read again."""

    is_complete: bool
    """False if the agent lacks a server, a tool or a plugin."""
    sleeps_in: float | None = None
    """Seconds until the agent may sleep, if it stays idle, or until a pod that ends is read again."""


class _Priority(NamedTuple):
    """The priority of a pod. Smaller ones come first: new pods, then those that answered, then the unreachable ones."""

    failures: int
    due: float
    incomplete: int = 0
    """The number of consecutive incomplete reports."""


_NEW = _Priority(-1, -math.inf)
_NO_LONGER_READY = _Priority(1, -math.inf)
"""The priority of a pod that stops being ready: due at once, but after the pods that answered.

If a node is lost, all of its pods become unready together, and none of them answers.
"""


class AgentStatusReader:
    def __init__(
        self,
        pods: Callable[[], Iterable[CachedObject]],
        *,
        on_status: Callable[[CachedObject, Any], StatusResult],
        every: float = 60.0,
        look: float = 5.0,
        patience: float = 3.0,
        clock: Callable[[], float],
        port: int = names.OPS_PORT,
    ) -> None:
        """Args: `pods` returns all of the operator's pods, and is called every `look` seconds.

        `on_status` is called with a pod and its parsed JSON. `patience` is the timeout of one read in seconds.
        """
        self._pods = pods
        self._on_status = on_status
        self._every = every
        self._look = look
        self._patience = patience
        self._clock = clock
        self._port = port
        self._priorities: dict[str, _Priority] = {}
        self._were_ready: set[str] = set()
        """The uids of the existing pods that this process has seen ready."""
        self._waiting: deque[CachedObject] = deque()
        self._some_wait = asyncio.Event()

    async def run(self) -> None:
        """Read agents until cancelled. A new pod is read soon, even if many pods do not answer."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as readers:
            for _ in range(_AT_ONCE):
                readers.create_task(self._read_loop(session))
            while True:
                self._enqueue_due()
                await asyncio.sleep(self._look)

    def _enqueue_due(self) -> None:
        """Queue the pods that are due, by priority.

        A pod that was not ready in between counts as new, and so does a pod that begins to end. A pod whose agent has
        not started yet is not read. One that has started and is not ready may wait for the memory volume.
        """
        agents = [pod for pod in self._pods() if names.AGENT_LABEL in pod.labels and pod.projection.get("podIP")]
        self._were_ready = {pod.uid for pod in agents if _is_ready(pod) or pod.uid in self._were_ready}
        readable = {
            _key(pod): pod for pod in agents if pod.deleting or pod.uid in self._were_ready or _has_started(pod)
        }
        self._priorities = {key: turn for key, turn in self._priorities.items() if key in readable}
        now = self._clock()
        due = [pod for pod in readable.values() if self._priority(pod).due <= now]
        youngest_first = sorted(due, key=lambda pod: pod.created, reverse=True)
        self._waiting = deque(sorted(youngest_first, key=self._priority))
        self._some_wait.set()

    async def _read_loop(self, session: aiohttp.ClientSession) -> None:
        while True:
            while not self._waiting:
                self._some_wait.clear()
                await self._some_wait.wait()
            pod = self._waiting.popleft()
            before = self._priority(pod)
            failures = max(before.failures, 0)
            self._priorities[_key(pod)] = self._next(failures)  # not due while it is being read
            found = await self._read(session, pod)
            if found is None:
                self._priorities[_key(pod)] = self._next(failures + 1)
            else:
                incomplete = 0 if found.is_complete else before.incomplete + 1
                self._priorities[_key(pod)] = self._next(0, incomplete=incomplete, sleeps_in=found.sleeps_in)

    def _priority(self, pod: CachedObject) -> _Priority:
        first = _NEW if pod.deleting or _is_ready(pod) else _NO_LONGER_READY
        return self._priorities.get(_key(pod), first)

    def _next(self, failures: int, *, incomplete: int = 0, sleeps_in: float | None = None) -> _Priority:
        pause = min(self._every * 2 ** min(max(failures - 1, 0), 20), max(self._every, _LONGEST_PAUSE))
        if incomplete:
            pause = min(pause, _FIRST_PAUSE * 2 ** min(incomplete - 1, 20))
        # Jitter: after a restart all agents are due at the same moment.
        pause *= random.uniform(0.8, 1.2)  # noqa: S311 - spreads load only
        due = self._clock() + (pause if sleeps_in is None else min(pause, sleeps_in))
        return _Priority(failures, due, incomplete)

    async def _read(self, session: aiohttp.ClientSession, pod: CachedObject) -> StatusResult | None:
        """Read one agent. Return None if it did not answer."""
        url = f"http://{_host(pod.projection['podIP'])}:{self._port}/status"
        try:
            # The client's own timeout loses a cancellation that comes at the same time, so asyncio's is used.
            async with asyncio.timeout(self._patience), session.get(url, allow_redirects=False) as answer:
                document = read_json(await _bounded(answer.content)) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = str(error) or repr(error)
            logger.info("agent status not read", extra={"namespace": pod.namespace, "object": pod.name, "why": why})
            return None
        return self._on_status(pod, document)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """Return the whole body.

    Raises:
        ValueError: The body is longer than 64 KiB.
    """
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > _LIMIT:
            raise ValueError(f"the status is longer than {_LIMIT} bytes")
    return bytes(body)


def _host(address: str) -> str:
    """Return the address as it is written in a URL."""
    return f"[{address}]" if ":" in address else address


def _key(pod: CachedObject) -> str:
    """Return the key of a pod in one state. A pod that ends is not ready, but answers until its end."""
    if pod.deleting:
        return f"{pod.uid}/ending"
    return pod.uid if _is_ready(pod) else f"{pod.uid}/unready"


def is_unready(pod: CachedObject) -> bool:
    """Return whether the pod says that it is not ready."""
    conditions = pod.projection.get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] != "True" for condition in conditions)


def _has_started(pod: CachedObject) -> bool:
    containers = pod.projection.get("containerStatuses", ())
    return any(container.get("started") for container in containers if container.get("name") == CONTAINER)


def _is_ready(pod: CachedObject) -> bool:
    conditions = pod.projection.get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
