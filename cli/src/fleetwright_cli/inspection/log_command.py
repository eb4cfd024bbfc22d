"""The command `logs`."""

import json
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from fleetwright_cli.cluster.options import OUTPUT, PLACE, check_duration, parse_duration
from fleetwright_cli.cluster.output import dump_yaml
from fleetwright_cli.cluster.tables import visible
from fleetwright_cli.terminal.commands import with_options
from fleetwright_cli.terminal.headless.outcome import ExitCode

if TYPE_CHECKING:
    from fleetwright_cli.inspection.log_lines import AgentLogLine, LoggingAgent, TaskTrail
    from fleetwright_cli.inspection.log_reading import ClusterLogs, LogReading, LogSource

_MOST_RECENT: Final = 50_000
_OVERLAP: Final = timedelta(seconds=5)


@click.command("logs")
@with_options(PLACE)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Read the agents of all namespaces.")
@click.option(
    "--since",
    default="24h",
    show_default=True,
    callback=check_duration,
    help="Read the lines of this time, such as 90m.",
)
@click.option("--follow", is_flag=True, help="Then print new lines until the task has ended.")
@OUTPUT
@click.argument("task")
def logs_command(
    task: str, context: str | None, namespace: str | None, everywhere: bool, since: str, follow: bool, output: str
) -> None:
    """Print the log lines of a TASK across its agents, in time order, and name the tasks whose lines are missing.

    TASK is the id of a task, of a conversation (contextId) or of a trace, or its first characters, at least eight. The
    lines of tasks that it has begun at other agents are included. The output json is one object a line. --follow ends
    with the task; for a conversation or a trace it ends only when interrupted. The exit code is 1 if there is no such
    line, if the log of an agent cannot be read, or if lines are missing, and 4 if no log can be read.
    """
    from fleetwright_cli.administration.commands import finished
    from fleetwright_cli.inspection.log_lines import SHORTEST, TaskTrail
    from fleetwright_cli.inspection.log_reading import ClusterLogs
    from fleetwright_cli.terminal.transport.kubectl import place_options

    if len(task) < SHORTEST:
        raise click.BadParameter(f"give at least {SHORTEST} characters of an id", param_hint="TASK")
    view = _LogView(ClusterLogs(place_options(context, namespace), everywhere), TaskTrail(task), output)
    try:
        found = finished(partial(view.print_lines, parse_duration(since), follow=follow))
    except KeyboardInterrupt:
        view.report_missing()
        sys.exit(view.code)
    view.report_missing()
    if not found:
        where = "all namespaces" if everywhere else "this namespace; -A reads all of them"
        click.echo(
            f"No line of {task} in the logs of the last {since} in {where}. --since reads older lines.", err=True
        )
    sys.exit(view.code if found else view.code or ExitCode.FAILED)


class _LogView:
    """Prints the lines of one task."""

    def __init__(self, logs: "ClusterLogs", trail: "TaskTrail", output: str) -> None:
        self._logs = logs
        self._trail = trail
        self._output = output
        self._width = 0
        self._sources: Sequence[LogSource] = ()
        self._has_shown = False
        self._shown: OrderedDict[str, None] = OrderedDict()
        """The keys of the last lines that were printed."""
        self._failures: set[str] = set()
        self.code = 0
        """The exit code, by the logs that could be read."""

    async def print_lines(self, since: timedelta, *, follow: bool) -> bool:
        """Print the existing lines, and with `follow` new ones until the task has ended. Return False if there is none.

        Args: `since` is the largest age of the existing lines.

        Raises: TransportError: The agents cannot be listed.
        """
        now = datetime.now(UTC)
        reading = await self._read(now - since)
        if reading.failures and not reading.is_readable:
            self.code = ExitCode.UNREACHABLE
        self._show_new(reading.lines)
        if follow and not self._trail.has_ended:
            await self._follow_lines(now, OrderedDict.fromkeys(reading.other_tasks, now - since))
        return self._has_shown

    async def _read(self, start: datetime) -> "LogReading":
        reading = await self._logs.read(start, self._trail)
        for failure in map(str, reading.failures):
            self.code = self.code or ExitCode.FAILED
            if failure not in self._failures:
                self._failures.add(failure)
                click.echo(f"Error: {failure}", err=True)
        self._sources = reading.sources
        return reading

    async def _follow_lines(self, start: datetime, others: OrderedDict[str, datetime]) -> None:
        """Print new lines.

        Args:
            start: The time at which the first reading began.
            others: The tasks of lines that were left out, with the time since which they may have lines.
        """
        # Following begins a little earlier than the first reading, so no line is missed and some come twice.
        async for line in self._logs.follow_lines(start):
            if line is None:
                # The last lines of other agents may come after the end of the task.
                if self._trail.has_ended:
                    return
            elif self._trail.learn_line(line):
                self._show_new([line])
            elif line.task:
                # The time that a line names may be wrong.
                seen = min(max(line.at, start.timestamp()), time.time())
                others.setdefault(line.task, datetime.fromtimestamp(seen, UTC))
                if len(others) > _MOST_RECENT:
                    others.popitem(last=False)
            # A line may link a task whose earlier lines were left out.
            while linked := self._trail.select_known(others.keys()):
                earliest = min(others.pop(task) for task in linked)
                again = await self._read(earliest - _OVERLAP)
                for task in again.other_tasks:
                    others.setdefault(task, earliest)
                # The reading may have the end of the task, so what it shows of the time since the start counts too.
                self._show_new([line for line in again.lines if line.task in linked or line.at >= start.timestamp()])

    def _show_new(self, lines: "Sequence[AgentLogLine]") -> None:
        new = {_key(line): line for line in lines if _key(line) not in self._shown}
        self._shown.update(dict.fromkeys(new))
        while len(self._shown) > _MOST_RECENT:
            self._shown.popitem(last=False)
        self._has_shown = self._has_shown or bool(new)
        self._width = max([self._width, *(len(line.agent) for line in new.values())])
        for line in new.values():
            text = line.text(self._width) if self._output == "text" else _shown(line.document, self._output)
            click.echo(text)

    def report_missing(self) -> None:
        """Name the tasks of which lines are missing, and how far back the logs of their agents reach."""
        for what, missing in (
            ("the first lines of task {} of agent {} are", self._trail.incomplete_tasks),
            ("all lines of task {}, which was begun at agent {}, are", self._trail.unseen_peer_tasks),
        ):
            for task, agent in sorted(missing.items()):
                text = describe_missing_lines(what.format(visible(task), visible(str(agent))), agent, self._sources)
                click.echo(f"Incomplete: {text}", err=True)
                self.code = self.code or ExitCode.FAILED


def describe_missing_lines(subject: str, agent: "LoggingAgent", sources: "Sequence[LogSource]") -> str:
    """Return why lines of a task may be missing, and where they may be. Pure.

    Args:
        subject: The missing lines, with the verb.
        agent: The agent that works on the task.
        sources: The pods whose logs were read.
    """
    kept = [
        f"pod {each.name} runs since {each.started or '-'}"
        + (f", and {each.restarts - 1} earlier runs of its container have no log" if each.restarts > 1 else "")
        for each in sources
        if (each.namespace, each.agent) == agent
    ]
    reach = "; ".join(kept) or "no pod of it was found; -A reads all namespaces"
    return (
        f"{subject} missing ({reach}). --since reads older lines. The cluster keeps no log of earlier pods, so also"
        " look into its log collector. An agent with an older or own image, or with spec.logging.level warning or"
        " error, may write no such lines"
    )


def _key(line: "AgentLogLine") -> str:
    return json.dumps(line.document, sort_keys=True)


def _shown(document: dict[str, object], output: str) -> str:
    if output == "json":
        return json.dumps(document, ensure_ascii=True)
    return f"---\n{dump_yaml(document)}".rstrip("\n")
