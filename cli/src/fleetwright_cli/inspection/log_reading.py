"""Reads the logs of containers with kubectl, and follows those of all agents, also of pods that appear later."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fleetwright_api import names
from fleetwright_cli.inspection.log_lines import AgentLogLine, TaskTrail, parse_line
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import (
    kubectl_json,
    kubectl_run,
    read_lines,
    signal_process,
    stream_kubectl_lines,
)

AGENT_PODS: Final = f"{names.OWN_OBJECTS},{names.COMPONENT}=agent"
"""The label selector of the pods of agents."""
AGENT_CONTAINER: Final = "agent"
LOGS_AT_ONCE: Final = 8
"""How many logs a command reads at the same time."""
_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 3.0
_OVERLAP: Final = timedelta(seconds=2)


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
    """The lines of the task in time order, and why some logs could not be read."""

    sources: list[LogSource]
    lines: list[AgentLogLine]
    failures: list[AgentUnreachable]
    is_readable: bool
    """True if a log could be read."""
    other_tasks: Set[str]
    """The tasks of all other lines. A later line may show that they belong to the search."""


@dataclass(slots=True)
class _KeptLines:
    """The lines of one log that belong to the task, and the tasks of its other lines."""

    lines: list[AgentLogLine] = field(default_factory=list)
    other_tasks: set[str] = field(default_factory=set)


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

    async def read(self, start: datetime, trail: TaskTrail) -> LogReading:
        """Return the lines of a task at all agents, also those of containers that were restarted.

        The memory use does not grow with the other lines of the logs. The method reads a log again if the task of a
        line that it left out turns out to belong to the search.

        Args:
            start: Older lines are left out.
            trail: Decides which lines belong to the task.

        Raises: TransportError: The pods cannot be listed, or kubectl is missing.
        """
        free = asyncio.Semaphore(LOGS_AT_ONCE)
        pods = await self.pods()
        runs = [(pod, run) for pod in pods for run in pod.runs]
        kept: dict[ContainerRun, _KeptLines] = {}
        failures: list[AgentUnreachable] = []
        unread = runs
        while unread:
            found = await asyncio.gather(*(self._read(pod, run, start, trail, free) for pod, run in unread))
            for (_, run), result in zip(unread, found, strict=True):
                if isinstance(result, _KeptLines):
                    kept[run] = result
                    continue
                failures.append(result)
                if run in kept:
                    kept[run].other_tasks.clear()
            unread = [(pod, run) for pod, run in runs if run in kept and trail.select_known(kept[run].other_tasks)]
        lines = sorted((line for each in kept.values() for line in each.lines), key=lambda line: line.at)
        other_tasks = frozenset[str]().union(*(each.other_tasks for each in kept.values()))
        return LogReading(pods, lines, failures, is_readable=bool(kept), other_tasks=other_tasks)

    async def _read(
        self, pod: LogSource, run: ContainerRun, start: datetime, trail: TaskTrail, free: asyncio.Semaphore
    ) -> _KeptLines | AgentUnreachable:
        kept = _KeptLines()

        def keep_line(text: bytes) -> None:
            line = _parsed(text, pod)
            if line is None:
                return
            if trail.learn_line(line):
                kept.lines.append(line)
            elif line.task:
                kept.other_tasks.add(line.task)

        words = _log_words(run, self.place, _since_time(start), *_previous_option(run))
        try:
            async with free:
                ended = await stream_kubectl_lines(self.kubectl, words, keep_line, seconds=self.seconds)
            if ended.code:
                raise AgentUnreachable(ended.reason)
        except AgentUnreachable as error:
            which = "previous log" if run.is_previous else "log"
            return AgentUnreachable(f"the {which} of pod {pod.name} cannot be read: {error}")
        return kept

    async def follow_lines(self, start: datetime) -> AsyncIterator[AgentLogLine | None]:
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
                deadline = asyncio.get_running_loop().time() + _LOOK_SECONDS
                with suppress(TimeoutError):
                    while True:
                        # The consumer of a line may wait for longer than that.
                        async with asyncio.timeout_at(deadline):
                            line = await queue.get()
                        yield line
                yield None
        finally:
            for follower in followers.values():
                follower.cancel()
            await asyncio.gather(*followers.values(), return_exceptions=True)

    async def _follow(self, pod: LogSource, start: datetime, queue: "asyncio.Queue[AgentLogLine]") -> None:
        process = await asyncio.create_subprocess_exec(
            self.kubectl,
            *_log_words(pod.runs[-1], self.place, "--follow", _since_time(start)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            async for text in read_lines(process.stdout):
                line = _parsed(text, pod)
                if line is not None:
                    await queue.put(line)
        finally:
            signal_process(process, signal.SIGKILL)
            await process.wait()


def _since_time(start: datetime) -> str:
    """Return the option of kubectl that leaves out lines before a time (UTC), without its fraction of a second."""
    return f"--since-time={start.strftime('%Y-%m-%dT%H:%M:%SZ')}"


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
    words = _log_words(run, place, *options, *_previous_option(run))
    ended = await kubectl_run(kubectl, words, seconds=seconds, most=most)
    if ended.code:
        raise AgentUnreachable(ended.reason)
    if ended.is_cut:
        # Nothing recognizes the rest of a secret whose beginning is cut off.
        return ContainerLog(ended.output.partition(b"\n")[2], is_cut=True)
    return ContainerLog(ended.output)


def _log_words(run: ContainerRun, place: Sequence[str], *options: str) -> tuple[str, ...]:
    # The last of two options counts, so this namespace replaces that of `place`.
    return (*place, "--namespace", run.namespace, "logs", run.pod, "-c", run.container, *options)


def _previous_option(run: ContainerRun) -> tuple[str, ...]:
    return ("--previous",) if run.is_previous else ()


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
