"""The command `team collapse`: the children of an agent become its sub-agents.

Everything that can be checked is checked before a child is asked for a handoff, and again before the first change.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from fleetwright_api import names
from fleetwright_api.spec.agent import parse_agent
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.team.agent_status import Agent, change_lead, is_awake, phase_of, running_tasks
from fleetwright_cli.team.bundle import document, fields_of, portable
from fleetwright_cli.team.handoff import request_handoff
from fleetwright_cli.team.merged_sub_agents import has_sub_agent, merged_sub_agents, sub_agent_of
from fleetwright_cli.team.tree import name_of, parent_of
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.errors import TransportError

AskHandoff = Callable[[str], Awaitable[str]]
"""Returns the handoff of the agent with a name. Raises: TransportError."""
Sleep = Callable[[float], None]
_WAKE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0


def collapse(
    cluster: ClusterClient,
    lead: str,
    *,
    with_handoff: bool,
    force: bool,
    confirmed: bool,
    dry_run: bool,
    output: str,
    ask: AskHandoff | None = None,
    sleep: Sleep = time.sleep,
) -> None:
    """Make a sub-agent of each child of `lead`, and delete the children.

    Args: `force` also deletes children that have running tasks, or whose running tasks are unknown. It overrides
        nothing else.
    """
    body = cluster.get(names.AGENT, lead)
    children = _children(cluster, lead)
    sub_agents = merged_sub_agents(body, [sub_agent_of(child, body) for child in children])
    _refuse_busy(children, force=force)
    asked = [child for child in children if with_handoff and not has_sub_agent(body, name_of(child))]
    if not dry_run:
        _dry_run_writes(cluster, body, children, sub_agents, asked)
    click.echo(_losses(children, cluster.namespace), err=True)
    if not dry_run and not confirmed:
        click.confirm(f"Collapse {len(children)} agents into {lead} and delete them?", abort=True, err=True)
    if not dry_run:
        asks = ask or (lambda child: _request_handoff_from(child, context=cluster.context, namespace=cluster.namespace))
        texts = {name_of(child): _handoff(cluster, child, asks, sleep) for child in asked}
        entries = [sub_agent_of(child, body, handoff=texts.get(name_of(child), "")) for child in children]
        sub_agents = merged_sub_agents(body, entries)
        _recheck_children(cluster, lead, children, sleep, force=force)
        _carry_out(cluster, body, children, sub_agents, quiet=output != "text")
    if output == "yaml":
        manifest = portable(body)
        click.echo(document([{**manifest, "spec": {**fields_of(manifest), "subAgents": sub_agents}}]), nl=False)
    elif dry_run:
        click.echo(f"agent/{lead} would be changed")
        for child in children:
            click.echo(f"agent/{name_of(child)} would be deleted")


def _children(cluster: ClusterClient, lead: str) -> list[Agent]:
    """Return the children of the lead. Raises: click.ClickException if the deletion of one would break others."""
    agents = cluster.list(names.AGENT)
    children: list[Agent] = sorted((agent for agent in agents if parent_of(agent) == lead), key=name_of)
    collapsed = {name_of(child) for child in children}
    if not children:
        raise click.ClickException(f"Agent {lead} has no children; `team tree` shows the teams")
    if below := sorted({parent for agent in agents if (parent := parent_of(agent)) in collapsed}):
        raise click.ClickException(f"agents with children of their own: {', '.join(below)}; collapse them first")
    for agent in map(parse_agent, agents):
        forwarded = agent.spec.fleet.forwarded_to
        local = {peer.name for peer in agent.spec.peers if peer.namespace in {None, "", cluster.namespace}}
        if agent.name not in collapsed and (
            named := sorted(collapsed & {*local, *([forwarded.name] if forwarded else [])})
        ):
            raise click.ClickException(
                f"Agent {agent.name} names {', '.join(named)} in spec.peers or spec.fleet.forwardedTo; remove it first"
            )
    return children


def _refuse_busy(children: Sequence[Agent], *, force: bool) -> None:
    """Raises: click.ClickException if tasks run on a child, or if this is unknown."""
    busy = [name_of(child) for child in children if running_tasks(child)]
    unknown = [name_of(child) for child in children if running_tasks(child) is None]
    if busy and not force:
        raise click.ClickException(f"tasks run on {', '.join(busy)}; wait for their end, or give --force to end them")
    if unknown and not force:
        raise click.ClickException(
            f"status.activity of {', '.join(unknown)} does not show whether tasks run; wait until it does, or give"
            " --force to end them"
        )


def _dry_run_writes(
    cluster: ClusterClient, lead: Agent, children: Sequence[Agent], sub_agents: Sequence[Any], asked: Sequence[Agent]
) -> None:
    """Let the API server check every write. Raises: click.ClickException if it would refuse one of them."""
    change_lead(cluster, lead, {"subAgents": sub_agents}, dry_run=True)
    for child in children:
        cluster.delete(names.AGENT, name_of(child), uid=child["metadata"]["uid"], dry_run=True)
    for child in asked:
        cluster.merge(names.AGENT, name_of(child), _wake_patch(), dry_run=True)


def _recheck_children(
    cluster: ClusterClient, lead: str, children: Sequence[Agent], sleep: Sleep, *, force: bool
) -> None:
    """Check that the children are the same, and idle. A status may still show the task that wrote the handoff.

    Raises:
        click.ClickException: A child has changed, or tasks run.
    """
    now = _children(cluster, lead)
    for _ in range(round(_SETTLE_SECONDS / _PAUSE_SECONDS)):
        if force or all(running_tasks(child) == 0 for child in now):
            break
        sleep(_PAUSE_SECONDS)
        now = _children(cluster, lead)
    if [_identity(child) for child in now] != [_identity(child) for child in children]:
        raise click.ClickException(
            f"the children of {lead} were changed meanwhile; nothing was changed, so start again"
        )
    try:
        _refuse_busy(now, force=force)
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.message}. Nothing was changed. The status is at most ten minutes old, and may still show the task"
            " that wrote a handoff"
        ) from None


def _identity(child: Agent) -> tuple[str, Any]:
    return child["metadata"]["uid"], fields_of(child)


def _carry_out(
    cluster: ClusterClient, lead: Agent, children: Sequence[Agent], sub_agents: Sequence[Any], *, quiet: bool
) -> None:
    done: list[str] = []
    try:
        if fields_of(lead).get("subAgents") == sub_agents:
            click.echo(f"agent/{name_of(lead)} unchanged", err=quiet)
        else:
            change_lead(cluster, lead, {"subAgents": sub_agents})
            click.echo(f"agent/{name_of(lead)} changed", err=quiet)
        done.append(f"{name_of(lead)} has the sub-agents")
        for child in children:
            cluster.delete(names.AGENT, name_of(child), uid=child["metadata"]["uid"])
            done.append(f"{name_of(child)} deleted")
            click.echo(f"agent/{name_of(child)} deleted", err=quiet)
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.message}. Done so far: {', '.join(done) or 'nothing'}. The same command continues"
        ) from None


def _losses(children: Sequence[Agent], namespace: str) -> str:
    lines = [
        "The sub-agents have the instructions, the tools and the handoffs of these agents. You lose for each of them:",
        "- its address, its clients' tokens, its labels and annotations, and its place in the registry",
        "- its tasks, and what it remembers. To keep the memory of an owner, first run:",
    ]
    for name in map(name_of, children):
        export = f"kubectl fleetwright memory export {name} -n {namespace} --owner OWNER --file {name}.jsonl"
        lines.append(f"    {export}")
    return "\n".join(lines)


def _handoff(cluster: ClusterClient, child: Agent, ask: AskHandoff, sleep: Sleep) -> str:
    """Return the handoff of a child, and wake it first if it sleeps now. Raises: click.ClickException."""
    name = name_of(child)
    _wake(cluster, name, sleep)
    click.echo(f"agent/{name} writes a handoff", err=True)
    try:
        return asyncio.run(_run_request(ask, name))
    except TransportError as error:
        raise click.ClickException(f"{error}; nothing was changed. --no-handoff collapses without a handoff") from None


async def _run_request(ask: AskHandoff, name: str) -> str:
    return await ask(name)


def _wake_patch() -> Mapping[str, Any]:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"metadata": {"annotations": {names.WAKE_ANNOTATION: stamp}}}


def _wake(cluster: ClusterClient, name: str, sleep: Sleep) -> None:
    if phase_of(cluster.get(names.AGENT, name)) != "Asleep":
        return
    cluster.merge(names.AGENT, name, _wake_patch())
    for _ in range(round(_WAKE_SECONDS / _PAUSE_SECONDS)):
        if is_awake(cluster.get(names.AGENT, name)):
            return
        sleep(_PAUSE_SECONDS)
    raise click.ClickException(
        f"Agent {name} did not wake within {_WAKE_SECONDS:.0f} s; nothing was changed. --no-handoff collapses without"
        " a handoff"
    )


async def _request_handoff_from(child: str, *, context: str | None, namespace: str) -> str:
    client = AgentClient(ClusterEndpoint(child, namespace=namespace, context=context))
    try:
        return await request_handoff(client)
    finally:
        await client.close()
