"""Reads the logs of all agents with kubectl, and follows them. A pod that appears later is followed too."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fleetwright_api import names
from fleetwright_cli.inspection.log_lines import AgentLogLine, parse_line
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, kubectl_run

_SELECTOR: Final = f"{names.OWN_OBJECTS},{names.COMPONENT}=agent"
_CONTAINER: Final = "agent"
_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 3.0
_OVERLAP: Final = timedelta(seconds=2)
_LONGEST_LINE: Final = 1024 * 1024
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class LogSource:
    """A pod of an agent."""

    name: str
    namespace: str
    agent: str
    started: str
    """When the pod started, as the API formats times; empty before that."""
    restarts: int
    """How often the container was restarted. The logs of the last two runs can be read."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """The lines that could be read, and why others could not."""

    sources: list[LogSource]
    lines: list[AgentLogLine]
    failures: list[AgentUnreachable]


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    """The logs of the agents of a namespace, or of all namespaces."""

    place: Sequence[str]
    """The options of kubectl that select the cluster and the namespace."""
    everywhere: bool
    kubectl: str = "kubectl"
    seconds: float = _SECONDS
    """How long the reading of one log may take."""

    async def pods(self) -> list[LogSource]:
        """Raises: TransportError."""
        everywhere = ("--all-namespaces",) if self.everywhere else ()
        found = await kubectl_json(self.kubectl, (*self.place, "get", "pods", *everywhere, "-l", _SELECTOR))
        return [_pod(each) for each in found.get("items") or ()]

    async def read(self, since: str) -> LogReading:
        """Return the lines of all agents, also those of containers that were restarted.

        Args: `since` is a duration of kubectl, such as 24h.

        Raises: TransportError: The pods cannot be listed, or kubectl is missing.
        """
        free = asyncio.Semaphore(_AT_ONCE)
        pods = await self.pods()
        wanted = [(pod, previous) for pod in pods for previous in ((True, False) if pod.restarts else (False,))]
        found = await asyncio.gather(*(self._read(pod, since, previous, free) for pod, previous in wanted))
        return LogReading(
            pods,
            [line for each in found if isinstance(each, list) for line in each],
            [each for each in found if isinstance(each, AgentUnreachable)],
        )

    async def _read(
        self, pod: LogSource, since: str, previous: bool, free: asyncio.Semaphore
    ) -> list[AgentLogLine] | AgentUnreachable:
        options = (f"--since={since}", *(("--previous",) if previous else ()))
        try:
            async with free:
                ended = await kubectl_run(self.kubectl, self._words(pod, *options), seconds=self.seconds)
        except AgentUnreachable as error:
            return AgentUnreachable(f"the log of pod {pod.name} cannot be read: {error}")
        if ended.code:
            return AgentUnreachable(f"the log of pod {pod.name} cannot be read: {ended.reason}")
        lines = (_parsed(text, pod) for text in ended.output.splitlines())
        return [line for line in lines if line is not None]

    async def follow(self, start: datetime) -> AsyncIterator[AgentLogLine | None]:
        """Yield the lines that are written from `start` on, without end, and None every few seconds.

        Raises: TransportError.
        """
        queue: asyncio.Queue[AgentLogLine] = asyncio.Queue(1000)
        followers: dict[tuple[str, str], asyncio.Task[None]] = {}
        since = start - _OVERLAP
        try:
            while True:
                looked = datetime.now(UTC) - _OVERLAP
                for pod in await self.pods():
                    key = (pod.namespace, pod.name)
                    if key not in followers or followers[key].done():
                        followers[key] = asyncio.create_task(self._follow(pod, since, queue))
                since = looked
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        while True:
                            yield await queue.get()
                yield None
        finally:
            for follower in followers.values():
                follower.cancel()
            await asyncio.gather(*followers.values(), return_exceptions=True)

    async def _follow(self, pod: LogSource, start: datetime, queue: "asyncio.Queue[AgentLogLine]") -> None:
        since = f"--since-time={start.strftime('%Y-%m-%dT%H:%M:%SZ')}"
        process = await asyncio.create_subprocess_exec(
            self.kubectl,
            *self._words(pod, "--follow", since),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
        )
        try:
            while process.stdout is not None and (text := await process.stdout.readline()):
                line = _parsed(text, pod)
                if line is not None:
                    await queue.put(line)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _words(self, pod: LogSource, *options: str) -> tuple[str, ...]:
        # The last of two options counts, so this namespace replaces that of `place`.
        return (*self.place, "--namespace", pod.namespace, "logs", pod.name, "-c", _CONTAINER, *options)


def _pod(found: Mapping[str, Any]) -> LogSource:
    metadata = found["metadata"]
    labels, status = metadata.get("labels") or {}, found.get("status") or {}
    containers = status.get("containerStatuses") or ()
    restarts = sum(int(each.get("restartCount") or 0) for each in containers if each.get("name") == _CONTAINER)
    agent = str(labels.get(names.AGENT_LABEL) or metadata["name"])
    return LogSource(
        name=str(metadata["name"]),
        namespace=str(metadata.get("namespace") or "default"),
        agent=agent,
        started=str(status.get("startTime") or ""),
        restarts=restarts,
    )


def _parsed(text: bytes, pod: LogSource) -> AgentLogLine | None:
    return parse_line(text, agent=pod.agent, namespace=pod.namespace, pod=pod.name)
