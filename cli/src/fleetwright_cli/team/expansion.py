"""Turns sub-agents of an agent into agents of its team. Pure.

A sub-agent works in the process of its agent and within its limits. An agent of a team has its own pod, memory and
callers. The new agent therefore repeats what restricts the sub-agent: tools, approvals, enforcement, network, limits
and budgets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from fleetwright_api import durations
from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_api.spec.fleet import DIRECT, LINEAGE, NO_REACH
from fleetwright_cli.team.bundle import portable
from fleetwright_cli.team.tool_names import Tools, tools_of

Manifest = dict[str, Any]
_COPIED: Final = ("network", "budgets", "sleep", "telemetry", "logging", "audit", "image", "imagePullSecrets")
_OWN_MODEL: Final = ("contextWindow", "price", "maxOutputTokens", "fallbacks")
"""Fields that belong to the model of the lead, and not to its address."""
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


def expansion(lead: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Expansion:
    """Return the team of a lead whose sub-agents become agents.

    Args:
        lead: The Agent as the API server returns it.
        entries: The sub-agents, as `spec.subAgents` has them.

    Raises:
        click.ClickException: An entry is not a sub-agent.
    """
    manifest = portable(lead)
    spec = manifest["spec"]
    view = parse_agent({**lead, "spec": {**spec, "subAgents": list(entries)}})
    if not entries or view.problems:
        why = "; ".join(problem.message for problem in view.problems)
        raise click.ClickException(why or f"Agent {view.name} has no sub-agents in spec.subAgents; give -f FILE")
    notes: list[str] = []
    children = [_child(view, spec, entry, notes) for entry in entries]
    moved = {entry["name"] for entry in entries}
    left = [entry for entry in spec.get("subAgents", ()) if entry["name"] not in moved]
    reach = view.spec.fleet.reach
    fleet = {**spec.get("fleet", {}), "reach": DIRECT if reach == NO_REACH else reach}
    if spec.get("budgets"):
        notes.append(f"each child has its own budgets with the limits of {view.name}; lower them if needed")
    kept = {key: value for key, value in spec.items() if key != "subAgents"}
    more = {"subAgents": left} if left else {}
    return Expansion(children, {**manifest, "spec": {**kept, **more, "fleet": fleet}}, notes)


def lead_changes(result: Expansion) -> dict[str, Any]:
    """Return the changes of the lead's spec as a merge patch."""
    spec = result.lead["spec"]
    return {"subAgents": spec.get("subAgents"), "fleet": {"reach": spec["fleet"]["reach"]}}


def _child(lead: AgentView, spec: Mapping[str, Any], entry: Mapping[str, Any], notes: list[str]) -> Manifest:
    tools = tools_of(lead, spec, entry.get("tools", ()))
    if tools.unknown:
        notes.append(f"{entry['name']} does not have the tools {', '.join(tools.unknown)}, which only {lead.name} has")
    reach = LINEAGE if lead.spec.fleet.reach == LINEAGE else DIRECT
    seconds = min(durations.seconds(entry.get("timeout", _TIMEOUT)), _LONGEST_TURN)
    limits = {"maxModelCalls": entry.get("maxModelCalls", _MAX_MODEL_CALLS), "maxTurnSeconds": seconds}
    copied = {key: spec[key] for key in _COPIED if key in spec}
    policies = {key: _limited(spec[key], tools) for key in ("approvals", "enforcement") if key in spec}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": entry["name"]},
        "spec": {
            "description": entry["description"],
            "instructions": entry["instructions"],
            "model": _model(spec["model"], entry.get("model")),
            **tools.spec,
            "fleet": {"parent": {"name": lead.name}, "reach": reach},
            "limits": limits,
            **policies,
            **copied,
        },
    }


def _model(model: Mapping[str, Any], other: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if other is None:
        return model
    return {**{key: value for key, value in model.items() if key not in _OWN_MODEL}, **other}


def _limited(policy: Mapping[str, Any], tools: Tools) -> dict[str, Any]:
    """Return a policy with rules for the given tools only, because a rule for an unknown tool is an error."""
    return {key: _rules(value, tools.names) if isinstance(value, list) else value for key, value in policy.items()}


def _rules(rules: Iterable[Any], known: frozenset[str]) -> list[Any]:
    return [rule for rule in rules if (rule.get("tool") if isinstance(rule, Mapping) else rule) in {*known, "*"}]
