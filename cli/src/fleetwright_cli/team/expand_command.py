"""The command `team expand`: sub-agents of an agent become agents."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.team.agent_status import Agent, change_lead, condition_of, lacks_gateway, running_tasks
from fleetwright_cli.team.bundle import document, fields_of
from fleetwright_cli.team.difference import differences
from fleetwright_cli.team.expansion import Expansion, expansion, lead_changes
from fleetwright_cli.team.tree import name_of

_READY_SECONDS: Final = 180.0
_PAUSE_SECONDS: Final = 1.0
_NO_GATEWAY: Final = "the installation has no gateway, which carries the messages; set gateway.enabled of the chart"


def expand(
    cluster: ClusterClient,
    lead: str,
    *,
    file: Path | None,
    dry_run: bool,
    output: str,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make an agent of each sub-agent of `lead`, or of each entry in a file.

    The lead is changed last, once all children are ready.
    """
    body = cluster.get(names.AGENT, lead)
    result = expansion(body, _entries(file) if file else fields_of(body).get("subAgents", []))
    agents = {name_of(agent): agent for agent in cluster.list(names.AGENT)}
    if any(map(lacks_gateway, agents.values())):
        raise click.ClickException(_NO_GATEWAY)
    if running_tasks(body):
        raise click.ClickException(f"Agent {lead} has running tasks that may use its sub-agents; wait until they end")
    present = [child for child in result.children if _is_present(child, agents, lead)]
    new = [child for child in result.children if child not in present]
    if not dry_run:
        for child in new:
            cluster.create(child, dry_run=True)
        change_lead(cluster, body, lead_changes(result), dry_run=True)
    for note in result.notes:
        click.echo(f"Note: {note}.", err=True)
    if output == "text":
        for child in present:
            click.echo(f"agent/{name_of(child)} exists")
    if not dry_run:
        _carry_out(cluster, body, result, new, sleep, quiet=output != "text")
    if output == "yaml":
        click.echo(document([result.lead, *result.children]), nl=False)
    elif dry_run:
        for child in new:
            click.echo(f"agent/{name_of(child)} would be created")
        click.echo(f"agent/{lead} would be changed")


def _carry_out(
    cluster: ClusterClient,
    lead: Agent,
    result: Expansion,
    new: Sequence[Agent],
    sleep: Callable[[float], None],
    *,
    quiet: bool,
) -> None:
    created: list[str] = []
    try:
        for child in new:
            cluster.create(child)
            created.append(name_of(child))
            click.echo(f"agent/{created[-1]} created", err=quiet)
        _await_ready(cluster, [name_of(child) for child in result.children], sleep)
        change_lead(cluster, lead, lead_changes(result))
    except click.ClickException as error:
        done = f"{', '.join(created)} created" if created else "no Agent created"
        raise click.ClickException(
            f"{error.message}. Done so far: {done}; {name_of(lead)} was not changed. The same command continues"
        ) from None
    click.echo(f"agent/{name_of(lead)} changed", err=quiet)


def _await_ready(cluster: ClusterClient, children: Sequence[str], sleep: Callable[[float], None]) -> None:
    """Raises: click.ClickException if a child is not ready in time, or cannot be reached."""
    why: list[str] = []
    for _ in range(round(_READY_SECONDS / _PAUSE_SECONDS)):
        why = []
        for name in children:
            child = cluster.get(names.AGENT, name)
            if lacks_gateway(child):
                raise click.ClickException(_NO_GATEWAY)
            ready, incomplete = condition_of(child, "Ready"), condition_of(child, "FleetIncomplete")
            if ready.get("status") != "True":
                why.append(f"Agent {name} is not ready: {ready.get('message') or 'its status is not known'}")
            elif incomplete.get("status") == "True":
                why.append(f"Agent {name} is not part of its team: {incomplete.get('message')}")
        if not why:
            return
        sleep(_PAUSE_SECONDS)
    raise click.ClickException(f"not ready within {_READY_SECONDS:.0f} s: {'; '.join(why)}")


def _is_present(child: Agent, agents: Mapping[str, Agent], lead: str) -> bool:
    """Return whether an interrupted command has created this child. Raises: click.ClickException if it differs."""
    name = name_of(child)
    found = agents.get(name)
    if found is None:
        return False
    mine, wanted = fields_of(found), fields_of(child)
    different = differences(mine, wanted)
    if mine.get("instructions") != wanted["instructions"]:
        different.append("spec.instructions differs")
    if different:
        raise click.ClickException(
            f"Agent {name} exists and differs from an Agent for this sub-agent of {lead}: {'; '.join(different)}."
            f" Rename the sub-agent, change it or the Agent, or delete the Agent"
        )
    return True


def _entries(file: Path) -> list[Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: not YAML: {error}") from None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise click.ClickException(f"{file}: write a list of sub-agents, as in spec.subAgents of an Agent")
    return found
