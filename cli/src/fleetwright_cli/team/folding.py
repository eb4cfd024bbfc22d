"""Turns the children of an agent into its sub-agents. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_cli.team.tool_names import names_of

HANDOFF: Final = "## Handoff"
"""The heading under which the instructions of a sub-agent have what the agent wrote before it was deleted."""
_LONGEST: Final = 16_384
"""The most characters of the instructions of a sub-agent."""
_LONGEST_HANDOFF: Final = 4_000
_ONLY_AGENTS: Final = (
    "a2a",
    "allowedCallers",
    "askHuman",
    "auth",
    "budgets",
    "compaction",
    "executor",
    "memory",
    "peers",
    "plugins",
    "podTemplate",
    "toolSearch",
    "workspace",
)
"""Fields of an Agent that a sub-agent does not have."""
_ADDRESS: Final = ("provider", "baseURL", "proxyURL")


def sub_agent_of(child: Mapping[str, Any], lead: Mapping[str, Any], *, handoff: str = "") -> dict[str, Any]:
    """Return an entry for `spec.subAgents` of the lead. Args: `handoff` is what the child has written.

    Raises:
        click.ClickException: A sub-agent cannot do what the child does; the message names the field and the remedy.
    """
    view, above = parse_agent(child), parse_agent(lead)
    spec = child["spec"]
    if view.spec.instructions is None:
        raise click.ClickException(
            f"Agent {view.name}: spec.instructionsFrom: write the text to spec.instructions first"
        )
    text = _with_handoff(view.spec.instructions, handoff)
    if len(text) > _LONGEST:
        raise click.ClickException(
            f"Agent {view.name}: spec.instructions and the handoff have more than {_LONGEST} characters, which a"
            " sub-agent cannot have; shorten the instructions, or give --no-handoff"
        )
    limits = view.spec.limits
    tools = names_of(view, above)
    calls = {"maxModelCalls": limits.max_model_calls} if limits.max_model_calls is not None else {}
    timeout = {"timeout": f"{limits.max_turn_seconds}s"} if limits.max_turn_seconds is not None else {}
    return {
        "name": view.name,
        "description": view.spec.description or f"The agent {view.name}",
        "instructions": text,
        **({"tools": tools} if tools else {}),
        **_model(view, spec["model"], lead["spec"]["model"], above.name),
        **calls,
        **timeout,
    }


def lost_fields(child: Mapping[str, Any]) -> list[str]:
    """Return the fields of a child's spec that its sub-agent does not have."""
    return [f"spec.{key}" for key in _ONLY_AGENTS if child["spec"].get(key)]


def folded_sub_agents(lead: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the sub-agents of the lead with these entries, which replace entries of the same names."""
    named = {entry["name"] for entry in entries}
    return [*(entry for entry in lead["spec"].get("subAgents", ()) if entry["name"] not in named), *entries]


def _with_handoff(instructions: str, handoff: str) -> str:
    base = instructions.split(f"\n\n{HANDOFF}\n", 1)[0].rstrip()
    return f"{base}\n\n{HANDOFF}\n\n{handoff.strip()[:_LONGEST_HANDOFF]}\n" if handoff.strip() else instructions


def _model(child: AgentView, own: Mapping[str, Any], leads: Mapping[str, Any], lead: str) -> dict[str, Any]:
    if any(own.get(key) != leads.get(key) for key in _ADDRESS):
        raise click.ClickException(
            f"Agent {child.name}: spec.model is at another address than the model of {lead}, and a sub-agent cannot"
            f" have one; use the address of {lead} first"
        )
    kept = {key: own[key] for key in ("name", "contextWindow", "price") if key in own}
    return {} if kept == {key: leads[key] for key in kept if key in leads} else {"model": kept}
