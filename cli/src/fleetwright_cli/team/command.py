"""The subcommands of `fleetwright team`. Each reads the cluster, decides on plain objects, and writes."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import yaml

from fleetwright_api import names
from fleetwright_api.skill_selection import selects
from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_cli.cluster.client import CONFIG_MAP, ClusterClient
from fleetwright_cli.cluster.refusals import FieldConflict
from fleetwright_cli.cluster.tables import visible
from fleetwright_cli.team.agent_status import blocking_condition, has_seen_spec, is_awake, is_suspended, phase_of
from fleetwright_cli.team.bundle import config_maps_of, document, portable, without_parent
from fleetwright_cli.team.requirements import requirement_lines, requirements_of
from fleetwright_cli.team.tree import Member, members, name_of, render, stay_suspended, tops

_KINDS: Final = (CONFIG_MAP, names.SKILL, names.MCP_SERVER, names.AGENT)
_PAUSE_SECONDS: Final = 1.0
_REACTION_SECONDS: Final = 10.0
"""The operator usually reacts within a second. Until then, the tree would show the state before the command."""


def tree(cluster: ClusterClient, lead: str | None, output: str) -> None:
    """Print the team of `lead`, or all teams of the namespace."""
    agents = cluster.list(names.AGENT)
    roots = [_agent(agents, lead, cluster)] if lead else tops(agents)
    found = [member for root in roots for member in members(root, agents)]
    if output == "json":
        click.echo(json.dumps([_summary(member) for member in found], indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump([_summary(member) for member in found], sort_keys=False), nl=False)
    elif found:
        click.echo(render(found))
    else:
        click.echo(f"No agents in namespace {cluster.namespace}.", err=True)


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock and the pauses of a command that waits, in seconds."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the operator is with a command for a team."""

    list_unfinished: Callable[[Sequence[Member]], list[str]]
    """Returns the names of the members that are not done."""
    list_unstarted: Callable[[Sequence[Member]], list[str]]
    """Returns the names of the members for which the operator has not reacted."""


def suspend(cluster: ClusterClient, lead: str, *, wait: float, timing: Timing | None = None) -> None:
    """Suspend an agent and, through `spec.fleet.suspendTeam`, its descendants."""
    cluster.merge(names.AGENT, lead, {"spec": {"suspend": True, "fleet": {"suspendTeam": True}}})
    progress = Progress(_list_unfinished_suspensions, _list_unstarted_suspensions)
    _print_team(cluster, lead, "Suspended", wait, timing or Timing(), progress)


def resume(cluster: ClusterClient, lead: str, *, wait: float, timing: Timing | None = None) -> None:
    """Resume an agent and those of its descendants that are not suspended by their own spec."""
    cluster.merge(names.AGENT, lead, {"spec": {"suspend": False}})
    progress = Progress(_list_unfinished_resumptions, _list_unstarted_resumptions)
    _print_team(cluster, lead, "Resumed", wait, timing or Timing(), progress)


def export(cluster: ClusterClient, lead: str) -> None:
    """Print the team as manifests for `kubectl apply`, without Secrets and memory.

    The objects that the manifests need and that are not exported are named in a comment, and on standard error.
    """
    agents = cluster.list(names.AGENT)
    bodies = [member.agent for member in members(_agent(agents, lead, cluster), agents)]
    manifests = [portable(body) for body in bodies]
    team = [parse_agent(body) for body in bodies]
    manifests += [portable(skill) for skill in cluster.list(names.SKILL) if _is_used(skill, team)]
    servers = {use.name for agent in team for use in agent.spec.mcp_servers}
    manifests += [portable(server) for server in cluster.list(names.MCP_SERVER) if name_of(server) in servers]
    manifests += [portable(cluster.get(CONFIG_MAP, name)) for name in config_maps_of(manifests)]
    manifests[0] = without_parent(manifests[0])
    lines = requirement_lines(requirements_of(manifests, cluster.namespace))
    click.echo(document(manifests, lines), nl=False)
    for line in lines:
        click.echo(line, err=True)


def import_(cluster: ClusterClient, file: Path, *, force: bool = False) -> None:
    """Apply the manifests of a bundle server-side, what is referred to first.

    Args: `force` takes over fields of other managers, such as a GitOps controller.
    """
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    try:
        manifests = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file}: not YAML: {error}") from None
    for number, manifest in enumerate(manifests, 1):
        _check(manifest, f"{file}: document {number}", cluster.namespace)
    for manifest in sorted(manifests, key=lambda each: _KINDS.index(each["kind"])):
        _apply(cluster, manifest, force=force)
        click.echo(f"{manifest['kind'].lower()}/{manifest['metadata']['name']} applied")


def _apply(cluster: ClusterClient, manifest: Mapping[str, Any], *, force: bool) -> None:
    """Raises: click.ClickException: The API server refuses the manifest. The message has the remedy."""
    try:
        cluster.apply(manifest, force=force)
    except FieldConflict as error:
        remedy = "Change the value with the tool that owns the field, remove the field from the file, or take the"
        raise click.ClickException(f"{error.message}. {remedy} fields over with --force-conflicts") from None


def _agent(agents: list[dict[str, Any]], name: str, cluster: ClusterClient) -> dict[str, Any]:
    found = next((agent for agent in agents if name_of(agent) == name), None)
    if found is None:
        raise click.ClickException(
            f"Agent {name} in namespace {cluster.namespace}: not found; --namespace names another namespace"
        )
    return found


def _summary(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "depth": member.depth,
        "phase": member.phase,
        "ready": member.ready.get("status"),
        "reason": member.ready.get("reason"),
    }


def _is_used(skill: Mapping[str, Any], team: list[AgentView]) -> bool:
    labels = skill["metadata"].get("labels") or {}
    return any(
        selects(agent.spec, labels) or any(use.name == name_of(skill) for use in agent.spec.skills) for agent in team
    )


def _print_team(cluster: ClusterClient, lead: str, verb: str, wait: float, timing: Timing, progress: Progress) -> None:
    """Print the team once every member is done, or after `wait` seconds.

    Without `wait`, print it as soon as the operator has reacted for every member. A member whose spec cannot be applied
    is not waited for.

    Raises: click.ClickException: Members are not done after `wait` seconds.
    """
    start, limit = timing.monotonic(), wait or _REACTION_SECONDS
    while True:
        agents = cluster.list(names.AGENT)
        team = list(members(_agent(agents, lead, cluster), agents))
        unfinished, unstarted = progress.list_unfinished(team), progress.list_unstarted(team)
        blocked = [member for member in team if member.name in unfinished and _is_blocked(member)]
        is_waiting = len(unfinished) > len(blocked) or bool(unstarted)
        seconds = timing.monotonic() - start
        if not is_waiting or seconds >= limit or not (wait or unstarted):
            break
        timing.sleep(_PAUSE_SECONDS)
    click.echo(f"{verb} {lead}; the team follows." if unfinished else f"{verb} {lead} and its team of {len(team)}.")
    click.echo(render(team))
    for member in blocked:
        condition = blocking_condition(member.agent)
        click.echo(
            f"{member.name} stays as it is until its spec is repaired: {condition['type']} is False"
            f" ({condition.get('reason')}): {visible(str(condition.get('message', '')))}",
            err=True,
        )
    if unstarted:
        click.echo(
            f"The operator did not react for {', '.join(unstarted)} within {seconds:.0f} s."
            " `kubectl fleetwright status` shows whether it works.",
            err=True,
        )
    if unfinished and wait:
        raise click.ClickException(f"not done after {seconds:.0f} s: {', '.join(unfinished)}")


def _list_unfinished_suspensions(team: Sequence[Member]) -> list[str]:
    return [member.name for member in team if not (has_seen_spec(member.agent) and is_suspended(member.agent))]


def _list_unstarted_suspensions(team: Sequence[Member]) -> list[str]:
    """Return the names of the members for which the operator has not reacted.

    The command changes the spec of the lead, so its generation shows the reaction. The others show it by their phase.
    """
    lead, *others = team
    waiting = [member for member in others if phase_of(member.agent) != "Suspended" and not _is_blocked(member)]
    return [*([] if has_seen_spec(lead.agent) else [lead.name]), *(member.name for member in waiting)]


def _list_unfinished_resumptions(team: Sequence[Member]) -> list[str]:
    """Return the names of the members that neither run nor sleep, without those that stay suspended."""
    resting = stay_suspended(team)
    up = {
        member.name
        for member in team
        if has_seen_spec(member.agent) and (is_awake(member.agent) or phase_of(member.agent) == "Asleep")
    }
    return [member.name for member in team if member.name not in resting | up]


def _list_unstarted_resumptions(team: Sequence[Member]) -> list[str]:
    lead, *others = team
    resting = stay_suspended(team)
    waiting = [member for member in others if phase_of(member.agent) == "Suspended" and member.name not in resting]
    return [*([] if has_seen_spec(lead.agent) else [lead.name]), *(member.name for member in waiting)]


def _is_blocked(member: Member) -> bool:
    return has_seen_spec(member.agent) and bool(blocking_condition(member.agent))


def _check(manifest: Any, place: str, namespace: str) -> None:
    """Raises: click.ClickException if the document is not a manifest of a bundle for this namespace."""
    if not isinstance(manifest, dict) or manifest.get("kind") not in _KINDS:
        raise click.ClickException(f"{place}: kind must be one of {', '.join(_KINDS)}")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise click.ClickException(f"{place}: metadata.name is missing")
    if metadata.get("namespace") not in {None, namespace}:
        raise click.ClickException(
            f"{place}: metadata.namespace is {metadata['namespace']}; remove it, or give --namespace"
        )
