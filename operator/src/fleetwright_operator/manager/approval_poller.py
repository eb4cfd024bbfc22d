"""Polls the agents that may ask for approvals, so that their open questions become objects within seconds.

Each such agent holds one long poll, up to a number of connections. If there are more agents, polls become shorter and
agents take turns. Agents that do not answer are polled less and less often, and so are agents whose lists change all
the time.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from fleetwright_kube.cached_object import CachedObject

logger = logging.getLogger(__name__)
CONNECTIONS: Final = 256
_WAIT: Final = 25
"""The longest poll in seconds."""
_GAP: Final = 4
"""The time in seconds for which an agent may be without a poll, if there are more agents than connections."""
_LONGEST_PAUSE: Final = 60.0
_FIRST_PAUSE: Final = 0.05
_CALM: Final = 0.5
"""A poll that lasts for this many seconds shows that the list does not change all the time."""
_HASTIEST: Final = 7
"""The number of quick answers in a row after which the pause stops growing. It then lasts about three seconds."""

AskingAgent = tuple[CachedObject, CachedObject]
"""An Agent and its serving pod."""


class Read(Protocol):
    async def __call__(self, pod: CachedObject, tokens: Sequence[str], *, after: str | None, wait: int) -> Any: ...


class ApprovalPoller:
    def __init__(
        self,
        agents: Callable[[], Iterable[AskingAgent]],
        *,
        read: Read,
        tokens: Callable[[CachedObject], Sequence[str]],
        on_list: Callable[[CachedObject, Any], str | None],
        look: float = 1.0,
        connections: int = CONNECTIONS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Args: `agents` is called every `look` seconds, and returns the agents to poll.

        `tokens` returns the operator's tokens for an agent. `on_list` is called with an agent and its list, and returns
        the version of the list; None if there is no usable list.
        """
        self._agents = agents
        self._read = read
        self._tokens = tokens
        self._on_list = on_list
        self._look = look
        self._connections = connections
        self._jitter = jitter
        self._slots = asyncio.Semaphore(connections)
        self._polls: dict[str, asyncio.Task[None]] = {}
        """By the uid of the pod."""

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                wanted = {pod.uid: (agent, pod) for agent, pod in self._agents()}
                for uid in self._polls.keys() - wanted.keys():
                    self._polls.pop(uid).cancel()
                for uid in wanted.keys() - self._polls.keys():
                    self._polls[uid] = group.create_task(self._poll(*wanted[uid]))
                await asyncio.sleep(self._look)

    async def _poll(self, agent: CachedObject, pod: CachedObject) -> None:
        clock = asyncio.get_running_loop().time
        version: str | None = None
        failures = hasty = 0
        while True:
            async with self._slots:
                started = clock()
                found = await self._attempt(agent, pod, version)
            if found is None:
                failures += 1
                pause = min(_LONGEST_PAUSE, 2.0 ** min(failures - 1, 10))
                await asyncio.sleep(pause * (0.5 + self._jitter() / 2))
                continue
            failures, version = 0, found
            hasty = 0 if clock() - started >= _CALM else min(hasty + 1, _HASTIEST)
            await asyncio.sleep(_FIRST_PAUSE * 2 ** (hasty - 1) if hasty else 0)

    async def _attempt(self, agent: CachedObject, pod: CachedObject, version: str | None) -> str | None:
        """Return the version of the agent's list, or None after a failure."""
        try:
            document = await self._read(pod, self._tokens(agent), after=version, wait=self._wait())
            return None if document is None else self._on_list(agent, document)
        except Exception:  # An error with one agent must not end the polls of the others.
            logger.exception("poll failed", extra={"namespace": agent.namespace, "object": agent.name})
            return None

    def _wait(self) -> int:
        """Return the seconds for which an agent may hold a poll, so that every agent is polled often enough."""
        rounds = len(self._polls) / self._connections
        return _WAIT if rounds <= 1 else max(1, min(_WAIT, int(_GAP / (rounds - 1))))
