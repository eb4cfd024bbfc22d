"""The commands `memory`, `audit`, `cost` and `delegations`. This module only defines the options."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from fleetwright_cli.administration.addresses import ADMIN_ADDRESS, admin_client
from fleetwright_cli.administration.admin_client import AdminClient
from fleetwright_cli.administration.delegations import DELEGATIONS_PATH, STATUSES, delegations_table
from fleetwright_cli.cluster.options import OUTPUT, PLACE
from fleetwright_cli.cluster.output import print_result
from fleetwright_cli.terminal.commands import with_options
from fleetwright_cli.terminal.headless.outcome import ExitCode
from fleetwright_cli.terminal.transport.addresses import AgentNotSpecified
from fleetwright_cli.terminal.transport.errors import (
    AgentUnauthorized,
    AgentUnreachable,
    ClusterNotConfigured,
    TransportError,
)

T = TypeVar("T")
_OWNER = (
    click.option("--owner", required=True, help="client:NAME, agent:NAMESPACE/NAME or user:NAME."),
    click.option("--conversation", metavar="ID", help="Only this conversation (contextId) of the owner."),
)


def administer(agent: str | None, options: dict[str, Any], work: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Run the work with a client for the agent. Errors end the command with the exit codes of `run`."""

    async def run() -> T:
        client = await admin_client(agent, options)
        try:
            return await work(client)
        finally:
            await client.close()

    return finished(run)


def finished(run: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the work, or end the command with a message."""

    async def awaited() -> T:
        return await run()

    try:
        return asyncio.run(awaited())
    except AgentNotSpecified as error:
        raise click.UsageError(str(error)) from None
    except ClusterNotConfigured as error:
        raise click.ClickException(str(error)) from None  # Commands that call no agent also exit with 1 then.
    except TransportError as error:
        click.echo(f"Error: {error}", err=True)
        unreachable = isinstance(error, AgentUnreachable | AgentUnauthorized)
        sys.exit(ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED)


@click.group("memory")
def memory_group() -> None:
    """Export or erase what an agent remembers of an owner, as one of its administrators."""


@memory_group.command("export")
@with_options(ADMIN_ADDRESS, _OWNER)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False, writable=True), help="Write to this new file.")
@click.option("--force", is_flag=True, help="Replace an existing --file once the new export is complete.")
@click.argument("agent", required=False)
def export_command(
    agent: str | None, owner: str, conversation: str | None, file: Path | None, force: bool, **options: Any
) -> None:
    """Write everything that AGENT remembers of an owner, one JSON object a line.

    Only you can read the file, which exists only if the export is complete. The number of lines of each kind is written
    to standard error.
    """
    from fleetwright_cli.administration.export_file import complete_file
    from fleetwright_cli.administration.memory import export_memory, summary, target

    parameters = target(owner, conversation)
    if file is None:
        kinds = administer(agent, options, lambda client: export_memory(client, parameters, sys.stdout.buffer))
        sys.stdout.flush()
    else:
        with complete_file(file, replaces=force) as output:
            kinds = administer(agent, options, lambda client: export_memory(client, parameters, output))
    click.echo(summary(kinds), err=True)


@memory_group.command("erase")
@with_options(ADMIN_ADDRESS, _OWNER)
@click.option("--yes", is_flag=True, help="Do not ask whether to erase.")
@OUTPUT
@click.argument("agent", required=False)
def erase_command(
    agent: str | None, owner: str, conversation: str | None, yes: bool, output: str, **options: Any
) -> None:
    """Erase everything that AGENT remembers of an owner, and print the receipt. Nothing can restore it."""
    from fleetwright_cli.administration.memory import erase_memory, receipt_text, target

    what = f"conversation {conversation} of {owner}" if conversation else f"everything of {owner}"
    if not yes:
        click.confirm(f"Erase {what}? Nothing can restore it.", abort=True, err=True)
    receipt = administer(agent, options, lambda client: erase_memory(client, target(owner, conversation)))
    print_result(output, lambda: receipt_text(receipt), receipt)


@click.group("audit")
def audit_group() -> None:
    """Verify the audit trail of an agent."""


@audit_group.command("verify")
@with_options(PLACE)
@click.option(
    "--expect",
    metavar="LINES:HASH",
    help="A line that the trail must contain. By default the one that the operator has recorded.",
)
@OUTPUT
@click.argument("agent")
def verify_command(agent: str, context: str | None, namespace: str | None, expect: str | None, output: str) -> None:
    """Check that no line of the audit trail of AGENT was altered or removed.

    The exit code is 0 for an unbroken trail, else that of the first finding: 10 broken chain, 11 altered content, 12
    rewritten line, 13 missing beginning, 14 unrecorded erasure, 15 missing end. It is 4 if the trail cannot be read,
    and 1 if no cluster is configured.
    """
    from fleetwright_cli.administration.audit import verify_audit_trail
    from fleetwright_cli.terminal.transport.kubectl import place_options

    place = place_options(context, namespace)
    report = finished(lambda: verify_audit_trail(agent, place=place, expected=expect))
    print_result(output, lambda: report.text, report.document)
    sys.exit(report.exit_code)


@click.command("cost")
@with_options(ADMIN_ADDRESS)
@click.option(
    "--by",
    default="agent,model",
    show_default=True,
    metavar="GROUPS",
    help="Comma-separated columns to group by: agent, caller, model, day, purpose.",
)
@click.option("--since", metavar="DAY", help="The first day (UTC), such as 2026-11-01, or 7d for the last seven days.")
@OUTPUT
@click.argument("agent", required=False)
def cost_command(agent: str | None, by: str, since: str | None, output: str, **options: Any) -> None:
    """Show what the model calls of AGENT have cost; without AGENT, of all agents of the namespace or local fleet.

    The exit code is 1 if the costs of an agent cannot be read.
    """
    from fleetwright_cli.administration.cost import GROUPS, cost_document, cost_table, group_costs
    from fleetwright_cli.administration.cost_reading import first_day, read_costs

    groups = by.split(",")
    if not set(groups) <= set(GROUPS) or len(set(groups)) < len(groups):
        raise click.BadParameter(f"{by!r}: use some of {', '.join(GROUPS)}, with commas", param_hint="--by")
    try:
        day = None if since is None else first_day(since, datetime.now(UTC))
    except ValueError:
        raise click.BadParameter(f"{since!r} is neither a day nor a number of days", param_hint="--since") from None
    found = finished(lambda: read_costs(agent, day, options))
    sums = group_costs(found.rows, groups)
    if sums or output != "text":
        print_result(output, lambda: cost_table(sums, groups), cost_document(sums, groups))
    elif not found.failures:
        click.echo("No model calls were recorded in this period.", err=True)
    for name, error in sorted(found.failures.items()):
        click.echo(f"Error: {name}: {error}" if name else f"Error: {error}", err=True)
    sys.exit(ExitCode.FAILED if found.failures else 0)


@click.command("delegations")
@with_options(ADMIN_ADDRESS)
@click.option("--owner", help="Only calls for this caller: client:NAME, agent:NAMESPACE/NAME or user:NAME.")
@click.option("--status", type=click.Choice(STATUSES), help="Only calls with this status.")
@OUTPUT
@click.argument("agent", required=False)
def delegations_command(agent: str | None, owner: str | None, status: str | None, output: str, **options: Any) -> None:
    """List the last calls with which AGENT asked other agents, the newest first: the last 50 that have ended, and up to
    200 that have not.
    """
    given = {"owner": owner, "status": status}
    parameters = {name: value for name, value in given.items() if value is not None}
    answer = administer(agent, options, lambda client: client.call("GET", DELEGATIONS_PATH, parameters))
    found = [each for each in answer.get("delegations") or () if isinstance(each, dict)]
    if output == "text" and not found:
        click.echo("No calls to other agents are recorded.", err=True)
    else:
        print_result(output, lambda: delegations_table(found, datetime.now(UTC)), found)
