"""The tools of a sub-agent, as fields of an Agent's spec, and back. Pure.

`spec.subAgents[].tools` has the names that the model sees, such as `orders__look_up_order`. An Agent has lists of tools
for each McpServer instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from fleetwright_api.spec.agent import AgentView

_SKILL_TOOLS: Final = ("load_skill", "read_skill_file")
_SKILL_FIELDS: Final = ("skills", "skillSelector")


@dataclass(frozen=True, slots=True)
class Tools:
    fields: Mapping[str, Any]
    """The fields of the spec that give an agent these tools."""
    names: frozenset[str]
    unknown: Sequence[str]
    """Tools that the lead does not have, or has in another way, so that they cannot be taken over."""


def tools_of(lead: AgentView, fields: Mapping[str, Any], wanted: Sequence[str]) -> Tools:
    """Return the fields for the tools that a sub-agent of this lead has. Args: `fields` is the lead's spec."""
    servers: list[dict[str, Any]] = []
    found: set[str] = set()
    for use in lead.spec.mcp_servers:
        prefix, lists = f"{use.name}__", use.tools
        listed = [name.removeprefix(prefix) for name in wanted if name.startswith(prefix)]
        usable = {*lists.allow, *lists.require_approval} if lists.allow is not None else None
        allow = [name for name in listed if name not in lists.deny and (usable is None or name in usable)]
        asks = [name for name in allow if name in lists.require_approval]
        found |= {f"{prefix}{name}" for name in allow}
        if allow:
            servers.append({"name": use.name, "tools": {"allow": allow, **({"requireApproval": asks} if asks else {})}})
    own: dict[str, Any] = {"mcpServers": servers} if servers else {}
    if any(name in _SKILL_TOOLS for name in wanted):
        own |= {key: fields[key] for key in _SKILL_FIELDS if key in fields}
        found |= {*_SKILL_TOOLS}
    names = frozenset(found.intersection(wanted))
    return Tools(own, names, [name for name in wanted if name not in found])


def names_of(child: AgentView, lead: AgentView) -> list[str]:
    """Return the names of a child's tools for `spec.subAgents[].tools` of its lead.

    Raises:
        click.ClickException: The lead does not have these tools, or the spec does not name them.
    """
    known = {use.name for use in lead.spec.mcp_servers}
    found: list[str] = []
    for use in child.spec.mcp_servers:
        place = f"Agent {child.name}: spec.mcpServers[{use.name}]"
        if use.name not in known:
            raise click.ClickException(f"{place}: Agent {lead.name} does not use this server; add it there first")
        if use.tools.allow is None:
            raise click.ClickException(f"{place}.tools.allow is not set; name the tools there first")
        listed = dict.fromkeys([*use.tools.allow, *use.tools.require_approval])
        usable = [name for name in listed if name not in use.tools.deny]
        found += [f"{use.name}__{name}" for name in usable]
    return [*found, *(_SKILL_TOOLS if child.spec.skills or child.spec.skill_selector else ())]
