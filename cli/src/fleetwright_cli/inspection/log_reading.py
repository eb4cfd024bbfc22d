"""Reads the logs of containers with kubectl, and follows those of all agents, also of pods that appear later."""

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

AGENT_PODS: Final = f"{names.OWN_OBJECTS},{names.COMPONENT}=agent"
"""The label selector of the pods of agents."""
AGENT_CONTAINER: Final = "agent"
LOGS_AT_ONCE: Final = 8
"""How many logs a command reads at the same time."""
_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 3.0
_OVERLAP: Final = timedelta(seconds=2)
_LONGEST_LINE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of a container. The kubelet keeps the logs of the current run and of the previous one."""

    namespace: str
    pod: str
    container: str
    is_previous: bool = False


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of one run of a container. It begins with the first byte of a line."""

    content: bytes
    is_cut: bool = False
    """True if earlier lines of the run are missing because the log has more bytes than were asked for."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """A pod of an agent."""

    name: str
    namespace: str
    agent: str
    started: str
    """When the pod started, as the API formats times; empty before that."""
    restarts: int
    """How often the container was restarted."""
    runs: Sequence[ContainerRun]
    """The runs whose logs can be read."""


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
        found = await kubectl_json(self.kubectl, (*self.place, "get", "pods", *everywhere, "-l", AGENT_PODS))
        return [_to_source(each) for each in found.get("items") or ()]

    async def read(self, since: str) -> LogReading:
        """Return the lines of all agents, also those of containers that were restarted.

        Args: `since` is a duration of kubectl, such as 24h.

        Raises: TransportError: The pods cannot be listed, or kubectl is missing.
        """
        free = asyncio.Semaphore(LOGS_AT_ONCE)
        pods = await self.pods()
        found = await asyncio.gather(*(self._read(pod, run, since, free) for pod in pods for run in pod.runs))
        return LogReading(
            pods,
            [line for each in found if isinstance(each, list) for line in each],
            [each for each in found if isinstance(each, AgentUnreachable)],
        )

    async def _read(
        self, pod: LogSource, run: ContainerRun, since: str, free: asyncio.Semaphore
    ) -> list[AgentLogLine] | AgentUnreachable:
        try:
            async with free:
                log = await read_container_log(
                    run, f"--since={since}", place=self.place, kubectl=self.kubectl, seconds=self.seconds
                )
        except AgentUnreachable as error:
            return AgentUnreachable(f"the log of pod {pod.name} cannot be read: {error}")
        lines = (_parsed(text, pod) for text in log.content.splitlines())
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
            *_log_words(pod.runs[-1], self.place, "--follow", since),
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


def list_container_runs(pod: Mapping[str, Any], container: str) -> list[ContainerRun]:
    """Return the runs of a container whose logs can be read, the current one last. Pure."""
    metadata = pod["metadata"]
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata["name"])
    is_restarted = _count_restarts(pod, container) > 0
    return [
        ContainerRun(namespace, name, container, previous) for previous in ((True, False) if is_restarted else (False,))
    ]


async def read_container_log(
    run: ContainerRun,
    *options: str,
    place: Sequence[str],
    kubectl: str = "kubectl",
    seconds: float = _SECONDS,
    most: int | None = None,
) -> ContainerLog:
    """Return the log of one run of a container.

    Args:
        run: The run.
        options: The options of `kubectl logs` that limit the lines.
        place: The options of kubectl that select the cluster.
        kubectl: The program to run.
        seconds: How long the reading may take.
        most: The maximum number of bytes, of the end of the log; None for all.

    Raises:
        AgentUnreachable: The log cannot be read. The message is the reason.
        TransportError: kubectl is missing.
    """
    previous = ("--previous",) if run.is_previous else ()
    ended = await kubectl_run(kubectl, _log_words(run, place, *options, *previous), seconds=seconds, most=most)
    if ended.code:
        raise AgentUnreachable(ended.reason)
    if ended.is_cut:
        # Nothing recognizes the rest of a secret whose beginning is cut off.
        return ContainerLog(ended.output.partition(b"\n")[2], is_cut=True)
    return ContainerLog(ended.output)


def _log_words(run: ContainerRun, place: Sequence[str], *options: str) -> tuple[str, ...]:
    # The last of two options counts, so this namespace replaces that of `place`.
    return (*place, "--namespace", run.namespace, "logs", run.pod, "-c", run.container, *options)


def _count_restarts(pod: Mapping[str, Any], container: str) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(each.get("restartCount") or 0) for each in statuses if each.get("name") == container)


def _to_source(pod: Mapping[str, Any]) -> LogSource:
    metadata = pod["metadata"]
    runs = list_container_runs(pod, AGENT_CONTAINER)
    return LogSource(
        name=runs[-1].pod,
        namespace=runs[-1].namespace,
        agent=str((metadata.get("labels") or {}).get(names.AGENT_LABEL) or metadata["name"]),
        started=str((pod.get("status") or {}).get("startTime") or ""),
        restarts=_count_restarts(pod, AGENT_CONTAINER),
        runs=runs,
    )


def _parsed(text: bytes, pod: LogSource) -> AgentLogLine | None:
    return parse_line(text, agent=pod.agent, namespace=pod.namespace, pod=pod.name)
