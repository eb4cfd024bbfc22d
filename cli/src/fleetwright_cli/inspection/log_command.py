"""The command `logs`."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from fleetwright_cli.cluster.options import OUTPUT, PLACE, check_duration
from fleetwright_cli.cluster.output import dump_yaml
from fleetwright_cli.cluster.tables import visible
from fleetwright_cli.terminal.commands import with_options
from fleetwright_cli.terminal.headless.outcome import ExitCode

if TYPE_CHECKING:
    from fleetwright_cli.inspection.log_lines import AgentLogLine, LoggingAgent, TaskTrail
    from fleetwright_cli.inspection.log_reading import ClusterLogs, LogSource

_MOST_RECENT: Final = 50_000


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
        found = finished(partial(view.print, since, follow=follow))
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
        self.code = 0
        """The exit code, by the logs that could be read."""

    async def print(self, since: str, *, follow: bool) -> bool:
        """Print the existing lines, and with `follow` new ones until the task has ended. Return False if there is none.

        Raises: TransportError: The agents cannot be listed.
        """
        start = datetime.now(UTC)
        reading = await self._logs.read(since, self._trail)
        for failure in reading.failures:
            click.echo(f"Error: {failure}", err=True)
        if reading.failures:
            self.code = ExitCode.FAILED if reading.is_readable else ExitCode.UNREACHABLE
        self._sources = reading.sources
        self._show(reading.lines)
        if follow and not self._trail.has_ended:
            await self._follow(start, reading.lines)
        return self._has_shown

    async def _follow(self, start: datetime, known: "Sequence[AgentLogLine]") -> None:
        # Following begins a little earlier than the first reading, so no line is missed and some come twice.
        recent = dict.fromkeys(_key(line) for line in known)
        async for line in self._logs.follow(start):
            if line is None:
                # The last lines of other agents may come after the end of the task.
                if self._trail.has_ended:
                    return
            elif (key := _key(line)) not in recent:
                recent[key] = None
                self._show(self._trail.take([line]))
            while len(recent) > _MOST_RECENT:
                del recent[next(iter(recent))]

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

    def _show(self, lines: "Sequence[AgentLogLine]") -> None:
        self._has_shown = self._has_shown or bool(lines)
        self._width = max([self._width, *(len(line.agent) for line in lines)])
        for line in lines:
            text = line.text(self._width) if self._output == "text" else _shown(line.document, self._output)
            click.echo(text)


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
