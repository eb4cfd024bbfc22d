"""The commands `agents`, `why`, `status`, `tasks` and `token`. This module only defines the options."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fleetwright_api import names
from fleetwright_cli.cluster.options import OUTPUT, on_cluster
from fleetwright_cli.cluster.output import print_result
from fleetwright_cli.cluster.tables import render
from fleetwright_cli.terminal.commands import ADDRESS, with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleetwright_cli.cluster.client import ClusterClient


_SETTLE_SECONDS: Final = 2.0
"""The time in which an operator that works sees a new or changed object."""


@click.command("agents")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List the agents of all namespaces.")
@OUTPUT
@on_cluster
def agents_command(cluster: "ClusterClient", everywhere: bool, output: str) -> None:
    """List the agents: phase and its reason, model and cost.

    The exit code is 1 if no operator works on one of them, or if none has seen its newest spec.
    """
    from fleetwright_cli.inspection.agents import agent_rows, describe_unserved_agents

    found, unserved = _read_settled(cluster, lambda: cluster.list(names.AGENT, everywhere=everywhere))
    if output == "text" and not found:
        where = "the cluster" if everywhere else f"namespace {cluster.namespace}"
        click.echo(f"No agents in {where}.", err=True)
        return
    now = datetime.now(UTC)
    rows = agent_rows(found, now=now, with_namespace=everywhere)
    print_result(output, lambda: render(rows), {"apiVersion": "v1", "kind": "List", "items": found})
    for line in describe_unserved_agents(unserved, with_namespace=everywhere):
        click.echo(line, err=True)
    if unserved:
        raise SystemExit(1)


@click.command("why")
@click.argument("agent")
@OUTPUT
@on_cluster
def why_command(cluster: "ClusterClient", agent: str, output: str) -> None:
    """Explain what AGENT may reach, who may reach it, and which tools it has, each with the reason.

    For an agent with spec.sleep it says what keeps it awake, which needs the right to create pods/portforward.
    The exit code is 1 if no operator works on the agent, or if none has seen its newest spec.
    """
    from fleetwright_cli.inspection import reasons
    from fleetwright_cli.inspection.sleep_explanation import explain_sleep

    (body,), unserved = _read_settled(cluster, lambda: [cluster.get(names.AGENT, agent)])
    missing = next(iter(unserved), "")
    sleep = explain_sleep(cluster, body, now=datetime.now(UTC))
    found = reasons.sections(body, missing_operator=missing, sleep=sleep)
    print_result(output, lambda: reasons.text(found), reasons.document(found))
    if missing:
        raise SystemExit(1)


def _read_settled(
    cluster: "ClusterClient", read: "Callable[[], list[dict[str, Any]]]"
) -> "tuple[list[dict[str, Any]], dict[str, list[Mapping[str, Any]]]]":
    """Return agents, and those on which no operator works, by the reason.

    The operator may see an object that has just been applied a moment later, so the agents are then read again.
    """
    from fleetwright_cli.inspection.installations import group_unserved_agents

    found = read()
    unserved = group_unserved_agents(cluster, found, now=datetime.now(UTC))
    if unserved:
        time.sleep(_SETTLE_SECONDS)
        found = read()
        unserved = group_unserved_agents(cluster, found, now=datetime.now(UTC))
    return found, unserved


@click.command("status")
@OUTPUT
@on_cluster
def status_command(cluster: "ClusterClient", output: str) -> None:
    """List the installations of Fleetwright: versions, leaders, namespaces and problems.

    The exit code is 1 if there is a problem. The command needs the rights to list Deployments, Agents, McpServers and
    Skills in all namespaces, and to get Leases.
    """
    from fleetwright_cli.inspection.installations import (
        installation_documents,
        installation_rows,
        list_problems,
        read_installations,
    )

    now = datetime.now(UTC)
    found = read_installations(cluster, now=now)
    problems = list_problems(found)

    def text() -> str:
        return "\n".join([render(installation_rows(found, now=now)), *(f"\n{each}" for each in problems)])

    print_result(output, text, {"installations": installation_documents(found), "problems": problems})
    if problems:
        raise SystemExit(1)


@click.command("tasks")
@with_options(ADDRESS[:-1])
@click.option("--client", help="Only the tasks of this client, with its token.")
@click.option("--owner", help="Only the tasks of this caller: client:NAME, agent:NAMESPACE/NAME or user:NAME.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="The most tasks to list.")
@click.option("--wide", is_flag=True, help="Show ids and texts in full.")
@OUTPUT
@click.argument("agent", required=False)
def tasks_command(
    agent: str | None, client: str | None, owner: str | None, limit: int, wide: bool, output: str, **options: Any
) -> None:
    """List the newest tasks of AGENT: who asked for what, the cost, and why a task did not succeed.

    The first of the Agent's spec.auth.administrators sees the tasks of all callers. If there is none, if you may not
    read the Agent or the Secret of the administrator, if the token is not that of an administrator, or if the image of
    the agent is older, the list has the tasks of one client only, and a note says so. With --owner, the command then
    fails.
    """
    from fleetwright_cli.administration.commands import finished
    from fleetwright_cli.inspection.tasks import read_tasks, task_rows

    if client is not None and owner is not None:
        raise click.UsageError("--client and --owner exclude each other; give one of them")
    chosen = {**options, "client": client}
    found = finished(lambda: read_tasks(agent, chosen, most=limit, owner=owner))
    if found.limitation:
        click.echo(f"Only the tasks of one client: {found.limitation}", err=True)
    if output == "text" and not found.tasks:
        click.echo("There are no tasks.", err=True)
        return
    print_result(output, lambda: render(task_rows(found.tasks, whole=wide)), found.tasks)


@click.group("token")
def token_group() -> None:
    """Replace the tokens of an agent's clients."""


@token_group.command("rotate")
@click.argument("agent")
@click.option("--client", default="default", show_default=True, help="The client that gets a new token.")
@click.option("--wait", default=0.0, help="Seconds to wait until the new token is in use.")
@on_cluster
def rotate_command(cluster: "ClusterClient", agent: str, client: str, wait: float) -> None:
    """Replace the token of a client of AGENT. The previous token stays valid for the overlap."""
    from fleetwright_cli.inspection.rotation import rotate

    rotate(cluster, agent, client=client, wait=wait)
