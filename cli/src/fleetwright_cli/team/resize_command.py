"""The commands `team expand` and `team collapse`: sub-agents of an agent become agents, and back."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import yaml

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.team.bundle import document, portable
from fleetwright_cli.team.expansion import expansion, lead_changes
from fleetwright_cli.team.folding import folded_sub_agents, lost_fields, sub_agent_of
from fleetwright_cli.team.handoff import request_handoff
from fleetwright_cli.team.tree import name_of, parent_of
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.errors import TransportError

Agent = Mapping[str, Any]
AskHandoff = Callable[[str], Awaitable[str]]
"""Returns the handoff of the agent with a name. Raises: TransportError."""
_WAKE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0


def expand(cluster: ClusterClient, lead: str, *, file: Path | None, dry_run: bool, output: str) -> None:
    """Make an agent of each sub-agent of `lead`, or of each entry in a file."""
    body = cluster.get(names.AGENT, lead)
    result = expansion(body, _entries(file) if file else body["spec"].get("subAgents", []))
    present = {
        child["metadata"]["name"]: cluster.find(names.AGENT, child["metadata"]["name"]) for child in result.children
    }
    for name, found in present.items():
        if found is not None and parent_of(found) != lead:
            raise click.ClickException(
                f"Agent {name} already exists; rename the sub-agent of {lead}, or delete the Agent"
            )
    if not dry_run:
        for child in result.children:
            # An Agent of an interrupted command is complete, because it is created in one request.
            if present[child["metadata"]["name"]] is None:
                cluster.create(child)
        _change(cluster, body, lead_changes(result))
    _print_notes(result.notes)
    if output == "yaml":
        click.echo(document([result.lead, *result.children]), nl=False)
        return
    for child in result.children:
        click.echo(f"agent/{child['metadata']['name']} {'would be created' if dry_run else 'created'}")
    click.echo(f"agent/{lead} {'would be changed' if dry_run else 'changed'}")


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
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make a sub-agent of each child of `lead`, and delete the children."""
    body = cluster.get(names.AGENT, lead)
    agents = cluster.list(names.AGENT)
    children = sorted((agent for agent in agents if parent_of(agent) == lead), key=name_of)
    _check(lead, children, agents, force=force)
    for child in children:
        sub_agent_of(child, body)  # Refuse before any agent is asked.
    click.echo(_losses(children, cluster.namespace), err=True)
    if not dry_run and not confirmed:
        click.confirm(f"Fold {len(children)} agents into {lead} and delete them?", abort=True, err=True)
    asks = ask or (lambda child: _asked(child, context=cluster.context, namespace=cluster.namespace))
    texts = _handoffs(cluster, children, asks, sleep) if with_handoff and not dry_run else {}
    entries = [sub_agent_of(child, body, handoff=texts.get(name_of(child), "")) for child in children]
    sub_agents = folded_sub_agents(body, entries)
    if not dry_run:
        _change(cluster, body, {"subAgents": sub_agents})
        for child in children:
            cluster.delete(names.AGENT, name_of(child), uid=child["metadata"]["uid"])
    if output == "yaml":
        manifest = portable(body)
        click.echo(document([{**manifest, "spec": {**manifest["spec"], "subAgents": sub_agents}}]), nl=False)
        return
    click.echo(f"agent/{lead} {'would be changed' if dry_run else 'changed'}")
    for child in children:
        click.echo(f"agent/{name_of(child)} {'would be deleted' if dry_run else 'deleted'}")


def _change(cluster: ClusterClient, lead: Agent, changes: Mapping[str, Any]) -> None:
    """Change the spec of the lead, unless another client has changed it since it was read."""
    now = cluster.get(names.AGENT, name_of(lead))
    if now["spec"] != lead["spec"]:
        raise click.ClickException(f"Agent {name_of(lead)} was changed meanwhile; run the command again")
    version = {"resourceVersion": now["metadata"]["resourceVersion"]}
    cluster.merge(names.AGENT, name_of(lead), {"metadata": version, "spec": dict(changes)})


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        found = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file}: not YAML: {error}") from None
    if not isinstance(found, list) or not all(isinstance(entry, dict) and "name" in entry for entry in found):
        raise click.ClickException(f"{file}: write a list of sub-agents, as in spec.subAgents of an Agent")
    return found


def _check(lead: str, children: Sequence[Agent], agents: Sequence[Agent], *, force: bool) -> None:
    """Raises: click.ClickException if the children cannot be folded."""
    if not children:
        raise click.ClickException(f"Agent {lead} has no children; `team tree` shows the teams")
    folded = {name_of(child) for child in children}
    if below := sorted({parent for agent in agents if (parent := parent_of(agent)) in folded}):
        raise click.ClickException(f"{', '.join(below)} have children of their own; collapse them first")
    busy = [name_of(child) for child in children if _running(child)]
    if busy and not force:
        raise click.ClickException(f"tasks run on {', '.join(busy)}; wait for their end, or give --force to end them")


def _running(child: Agent) -> int:
    activity = (child.get("status") or {}).get("activity") or {}
    return int(activity.get("runningTasks", 0))


def _losses(children: Sequence[Agent], namespace: str) -> str:
    lines = [
        "The sub-agents have the instructions, the tools and the handoffs of these agents. You lose for each of them:",
        "- its address, its clients' tokens, and its place in the registry",
        "- its tasks, and what it remembers. To keep the memory of an owner, first run:",
    ]
    for name in map(name_of, children):
        export = f"kubectl fleetwright memory export {name} -n {namespace} --owner OWNER --file {name}.jsonl"
        lines.append(f"    {export}")
    fields = {name_of(child): lost_fields(child) for child in children}
    lines += [f"- the settings of {name} in {', '.join(found)}" for name, found in fields.items() if found]
    return "\n".join(lines)


def _handoffs(
    cluster: ClusterClient, children: Sequence[Agent], ask: AskHandoff, sleep: Callable[[float], None]
) -> dict[str, str]:
    """Return the handoff of each child, and wake the sleeping ones first. Raises: click.ClickException."""
    found: dict[str, str] = {}
    for child in children:
        name = name_of(child)
        _wake(cluster, child, sleep)
        click.echo(f"agent/{name} writes a handoff", err=True)
        try:
            found[name] = asyncio.run(_awaited(ask, name))
        except TransportError as error:
            raise click.ClickException(f"{error}; nothing was changed. --no-handoff folds without one") from None
    return found


async def _awaited(ask: AskHandoff, name: str) -> str:
    return await ask(name)


def _wake(cluster: ClusterClient, child: Agent, sleep: Callable[[float], None]) -> None:
    name = name_of(child)
    if (child.get("status") or {}).get("phase") != "Asleep":
        return
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    cluster.merge(names.AGENT, name, {"metadata": {"annotations": {names.WAKE_ANNOTATION: stamp}}})
    for _ in range(round(_WAKE_SECONDS / _PAUSE_SECONDS)):
        if (cluster.get(names.AGENT, name).get("status") or {}).get("phase") == "Running":
            return
        sleep(_PAUSE_SECONDS)
    raise click.ClickException(f"Agent {name} did not wake within {_WAKE_SECONDS:.0f} s; --no-handoff folds without it")


async def _asked(child: str, *, context: str | None, namespace: str) -> str:
    client = AgentClient(ClusterEndpoint(child, namespace=namespace, context=context))
    try:
        return await request_handoff(client)
    finally:
        await client.close()


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}.", err=True)
