"""Turns the children of an agent into its sub-agents. Pure.

An agent becomes a sub-agent only if the sub-agent has the same tools, rules and limits. To find this out, the sub-agent
is expanded again, and the result is compared with the agent.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_cli.team.bundle import fields_of
from fleetwright_cli.team.difference import differences
from fleetwright_cli.team.expansion import child_of
from fleetwright_cli.team.tool_names import names_of

_BEGIN: Final = "<!-- fleetwright team collapse: begin of the handoff -->"
_END: Final = "<!-- fleetwright team collapse: end of the handoff -->"
"""The section of the instructions that has what the agent wrote before it was deleted. Only this is ever replaced."""
_SECTION: Final = re.compile(rf"\n\n{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n?", re.DOTALL)
_LONGEST: Final = 16_384
"""The most characters of the instructions of a sub-agent."""
_LONGEST_HANDOFF: Final = 4_000


def sub_agent_of(child: Mapping[str, Any], lead: Mapping[str, Any], *, handoff: str = "") -> dict[str, Any]:
    """Return an entry for `spec.subAgents` of the lead. Args: `handoff` is what the child has written.

    Raises:
        click.ClickException: The sub-agent would differ from the child; the message names the fields and the remedy.
    """
    view, above = parse_agent(child), parse_agent(lead)
    fields, leads = fields_of(child), fields_of(lead)
    for each in (view, above):
        if each.problems:
            raise click.ClickException(f"Agent {each.name}: {'; '.join(problem.message for problem in each.problems)}")
    if above.spec.executor is not None:
        raise click.ClickException(
            f"Agent {above.name}: spec.executor is set, and a custom executor may not support sub-agents;"
            " remove it first, or keep the children"
        )
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
    entry = {
        "name": view.name,
        "description": view.spec.description,
        "instructions": text,
        **({"tools": tools} if tools else {}),
        **_model(fields["model"], leads["model"]),
        **calls,
        **timeout,
    }
    _refuse_differences(view, above, fields, fields_of(child_of(above, leads, entry)))
    return entry


def merged_sub_agents(lead: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the sub-agents of the lead with these entries.

    An entry that the lead has already, apart from a handoff, is the result of an interrupted command. It keeps its
    handoff if the new entry has none.

    Raises:
        click.ClickException: The lead has another sub-agent with the name of an entry.
    """
    found = {entry["name"]: entry for entry in fields_of(lead).get("subAgents", ())}
    for entry in entries:
        old = found.get(entry["name"])
        if old is not None and not _is_same(lead, old, entry):
            raise click.ClickException(
                f"Agent {lead['metadata']['name']}: spec.subAgents[{entry['name']}] exists and differs from the Agent"
                f" {entry['name']}; remove or rename one of them first"
            )
        if old is None:
            found[entry["name"]] = entry
        elif _SECTION.search(entry["instructions"]):
            found[entry["name"]] = {**old, "instructions": entry["instructions"]}
    return list(found.values())


def has_sub_agent(lead: Mapping[str, Any], name: str) -> bool:
    """Return whether the lead has a sub-agent with this name."""
    return any(entry["name"] == name for entry in fields_of(lead).get("subAgents", ()))


def _refuse_differences(child: AgentView, lead: AgentView, fields: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    found = differences(fields, again)
    if not child.spec.description:
        found.insert(0, "spec.description is unset, and a sub-agent needs one")
    if found:
        raise click.ClickException(
            f"Agent {child.name} differs from a sub-agent of {lead.name}: {'; '.join(found)}. Change these fields of"
            f" {child.name} or {lead.name} first, or keep the Agent"
        )


def _is_same(lead: Mapping[str, Any], one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Return whether two sub-agents of the lead are equal, apart from a handoff and from values that are defaults."""
    view, fields = parse_agent(lead), fields_of(lead)
    first, second = (_SECTION.sub("", entry["instructions"]).rstrip() for entry in (one, two))
    if first != second or set(one.get("tools") or ()) != set(two.get("tools") or ()):
        return False
    return not differences(*(fields_of(child_of(view, fields, entry)) for entry in (one, two)))


def _with_handoff(instructions: str, handoff: str) -> str:
    written = handoff.replace(_BEGIN, "").replace(_END, "").strip()[:_LONGEST_HANDOFF]
    if not written:
        return instructions
    return f"{_SECTION.sub('', instructions).rstrip()}\n\n{_BEGIN}\n## Handoff\n\n{written}\n{_END}\n"


def _model(own: Mapping[str, Any], leads: Mapping[str, Any]) -> dict[str, Any]:
    if own == leads:
        return {}
    return {"model": {key: own[key] for key in ("name", "contextWindow", "price") if key in own}}
