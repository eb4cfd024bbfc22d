"""Turns sub-agents of an agent into agents of its team. Pure.

A sub-agent works in the process of its agent and within its limits. An agent of a team has its own pod, memory and
callers. The new agent therefore repeats what restricts the sub-agent: tools, approvals, enforcement, network, limits
and budgets. What a new agent cannot take over is refused or named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from fleetwright_api import durations
from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_api.spec.fleet import DIRECT, LINEAGE, NO_REACH
from fleetwright_cli.team.bundle import fields_of, portable
from fleetwright_cli.team.difference import delegation_references
from fleetwright_cli.team.tool_names import tools_of

Manifest = dict[str, Any]
_COPIED: Final = (
    "network",
    "budgets",
    "callerRoles",
    "sleep",
    "telemetry",
    "logging",
    "audit",
    "image",
    "imagePullSecrets",
    "podTemplate",
    "resources",
    "suspend",
    "drainSeconds",
)
_HANDLED: Final = frozenset(
    {*_COPIED, "description", "instructions", "instructionsFrom", "model", "mcpServers", "subAgents", "limits", "fleet"}
    | {"approvals", "enforcement", "memory", "skills", "skillSelector", "version"}
)
_ENTRY: Final = frozenset({"name", "description", "instructions", "tools", "model", "maxModelCalls", "timeout"})
_ENTRY_MODEL: Final = frozenset({"name", "contextWindow", "price"})
_OWN_MODEL: Final = ("contextWindow", "price", "maxOutputTokens", "fallbacks")
"""Fields that belong to the model of the lead, and not to its address."""
_UNSHARED_MEMORY: Final = ("knowledge", "sessions", "skills")
"""Parts of the memory that a sub-agent does not have. The Agent that replaces it does not get them either."""
_MAX_MODEL_CALLS: Final = 30
_TIMEOUT: Final = "5m"
_LONGEST_TURN: Final = 86_400
"""The most seconds of `limits.maxTurnSeconds`."""


@dataclass(frozen=True, slots=True)
class Expansion:
    children: Sequence[Manifest]
    lead: Manifest
    notes: Sequence[str]
    """Sentences about everything that the children do not take over, for the user."""


def expansion(lead: Mapping[str, Any], entries: Sequence[Any]) -> Expansion:
    """Return the team of a lead whose sub-agents become agents.

    Args:
        lead: The Agent as the API server returns it.
        entries: The sub-agents, as `spec.subAgents` has them.

    Raises:
        click.ClickException: An entry is not a sub-agent, or cannot become an agent without a loss.
    """
    manifest = portable(lead)
    fields, name = fields_of(manifest), manifest["metadata"]["name"]
    view = _checked(lead, fields, entries)
    moved = frozenset(entry["name"] for entry in entries)
    if found := delegation_references(fields, moved):
        raise click.ClickException(
            f"Agent {name}: {', '.join(found)} refer to sub-agents or to the tools task and task_batch. No such rule"
            " exists for other agents, so remove these rules first, or keep the sub-agents"
        )
    for field in ("executor", "suspend"):
        if fields.get(field):
            raise click.ClickException(f"Agent {name}: spec.{field} is set; remove it first")
    for entry in entries:
        if unknown := tools_of(view, fields, entry.get("tools") or ()).unknown:
            raise click.ClickException(
                f"spec.subAgents[{entry['name']}].tools: an agent cannot take over {', '.join(unknown)}; it takes over"
                f" only load_skill, read_skill_file, and tools of MCP servers that {name} allows. Remove them first"
            )
    children = [child_of(view, fields, entry) for entry in entries]
    left = [entry for entry in fields.get("subAgents", ()) if entry["name"] not in moved]
    reach = view.spec.fleet.reach
    fleet = {**fields.get("fleet", {}), "reach": DIRECT if reach == NO_REACH else reach}
    kept = {key: value for key, value in fields.items() if key != "subAgents"}
    more = {"subAgents": left} if left else {}
    return Expansion(children, {**manifest, "spec": {**kept, **more, "fleet": fleet}}, _notes(name, fields))


def lead_changes(result: Expansion) -> dict[str, Any]:
    """Return the changes of the lead's spec as a merge patch."""
    fields = fields_of(result.lead)
    return {"subAgents": fields.get("subAgents"), "fleet": {"reach": fields["fleet"]["reach"]}}


def child_of(lead: AgentView, fields: Mapping[str, Any], entry: Mapping[str, Any]) -> Manifest:
    """Return the agent that a sub-agent of this lead becomes. Args: `fields` is the lead's spec."""
    tools = tools_of(lead, fields, entry.get("tools") or ())
    reach = LINEAGE if lead.spec.fleet.reach == LINEAGE else DIRECT
    limits = fields.get("limits") or {}
    # A sub-agent has its own number of model calls, but works within the turn of its agent.
    calls = entry.get("maxModelCalls")
    own = {
        "maxModelCalls": _MAX_MODEL_CALLS if calls is None else calls,
        "maxTurnSeconds": min(_seconds(entry), limits.get("maxTurnSeconds") or _LONGEST_TURN),
    }
    memory = {key: value for key, value in (fields.get("memory") or {}).items() if key not in _UNSHARED_MEMORY}
    policies = {key: _limited(fields[key], tools.names) for key in ("approvals", "enforcement") if fields.get(key)}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": entry["name"]},
        "spec": {
            "description": entry["description"],
            "instructions": entry["instructions"],
            "model": _model(fields["model"], entry.get("model")),
            **tools.fields,
            "fleet": {"parent": {"name": lead.name}, "reach": reach},
            "limits": {**limits, **own},
            **({"memory": memory} if memory else {}),
            **{key: value for key, value in policies.items() if value},
            **{key: fields[key] for key in _COPIED if key in fields},
        },
    }


def _checked(lead: Mapping[str, Any], fields: Mapping[str, Any], entries: Sequence[Any]) -> AgentView:
    """Return the view of the lead with these entries. Raises: click.ClickException if one of them is malformed."""
    view = parse_agent({**lead, "spec": {**fields, "subAgents": list(entries)}})
    problems = [problem.message for problem in view.problems]
    if not entries:
        problems.append(f"Agent {view.name} has no sub-agents in spec.subAgents; give -f FILE")
    seen: dict[str, Any] = {}
    present = {entry["name"]: entry for entry in fields.get("subAgents", ())}
    for entry in [] if problems else entries:
        place = f"spec.subAgents[{entry['name']}]"
        unknown = [*({*entry} - _ENTRY), *(f"model.{key}" for key in {*(entry.get("model") or {})} - _ENTRY_MODEL)]
        problems += [f"{place}.{key} is not a field; remove it" for key in sorted(map(str, unknown))]
        if entry["name"] in seen:
            problems.append(f"{place} exists twice; remove one of them")
        if present.get(entry["name"], entry) != entry:
            problems.append(f"{place} differs from this sub-agent of Agent {view.name}; make both equal, or rename one")
        try:
            if _seconds(entry) > _LONGEST_TURN:
                problems.append(f"{place}.timeout is longer than the turn of an agent may be; write at most 24h")
        except ValueError as error:
            problems.append(f"{place}.timeout: {error}")
        seen[entry["name"]] = entry
    if problems:
        raise click.ClickException("; ".join(problems))
    return view


def _seconds(entry: Mapping[str, Any]) -> int:
    """Raises: ValueError if the time of a sub-agent is not a duration."""
    text = entry.get("timeout")
    return durations.seconds(_TIMEOUT if text is None else text)


def _notes(name: str, fields: Mapping[str, Any]) -> list[str]:
    notes = []
    if fields.get("budgets"):
        notes.append(f"each child has its own budgets with the limits of {name}; lower them if needed")
    if fields.get("callerRoles"):
        notes.append(
            f"each child has a copy of the callerRoles of {name}; when {name} delegates a client's task, the child sees"
            f" {name} as the caller, so the entry of the client does not apply"
        )
    memory = [f"memory.{key}" for key in _UNSHARED_MEMORY if (fields.get("memory") or {}).get(key)]
    exempt = ["approvals.bypassCallers"] if (fields.get("approvals") or {}).get("bypassCallers") else []
    if left := [f"spec.{key}" for key in [*(key for key in fields if key not in _HANDLED), *memory, *exempt]]:
        notes.append(f"the children do not get {', '.join(left)} of {name}; set these fields there if needed")
    return notes


def _model(model: Mapping[str, Any], other: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if other is None:
        return model
    return {**{key: value for key, value in model.items() if key not in _OWN_MODEL}, **other}


def _limited(policy: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return a policy with rules for the given tools only, because a rule for an unknown tool is an error."""
    rules = {
        key: [rule for rule in value if (rule.get("tool") if isinstance(rule, Mapping) else rule) in {*known, "*"}]
        if isinstance(value, list)
        else value
        for key, value in policy.items()
    }
    return {key: value for key, value in rules.items() if value != []}
