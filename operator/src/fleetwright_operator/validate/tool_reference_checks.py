"""Checks that an Agent's fields name only tools that the agent can have. Pure.

Only the agent knows which tools a server offers. If a rule names a tool that its server does not offer, all tools of
that server need approval.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.sub_agents import DELEGATING
from fleetwright_operator.build.config.tool_access import peer_tool
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings

_KNOWLEDGE: Final = ("remember", "recall_memory", "forget")
_ASKING: Final = ("ask_human", "request_user_input")
Named = Iterable[tuple[str, str]]
"""Pairs of field and tool."""


def named_tools_are_its_own(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    shared = _shareable(spec)
    yield from _unknown(_ruled(spec), {*shared, *(DELEGATING if spec.sub_agents else ())}, spec)
    for field, name in _given_to_sub_agents(spec):
        if name in {*DELEGATING, *_ASKING}:
            message = f"spec.{field} names {name!r}: a sub-agent cannot delegate or ask a person; remove it"
            yield Violation("UnknownTool", message)
        else:
            yield from _unknown([(field, name)], shared, spec)


def plugins_are_told_apart(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    servers = {use.name for use in spec.mcp_servers}
    for plugin in (each.name for each in spec.plugins if each.name in servers):
        message = (
            f"spec.plugins and spec.mcpServers both have {plugin!r}, so their tools have equal names; rename the plugin"
        )
        yield Violation("PluginIsServer", message)


def _shareable(spec: AgentSpec) -> set[str]:
    """Return the built-in tools and the peer tools that sub-agents may use as well."""
    knowledge = spec.memory.knowledge
    facts = _KNOWLEDGE if knowledge is not None and knowledge.enabled else ()
    return {"load_skill", "read_skill_file", *facts, *(peer_tool(peer.name) for peer in spec.peers)}


def _unknown(named: Named, known: Collection[str], spec: AgentSpec) -> Iterator[Violation]:
    sources = [*(use.name for use in spec.mcp_servers), *(plugin.name for plugin in spec.plugins)]
    others = tuple(f"{source}__" for source in sources)
    for field, name in named:
        if name not in known and not (others and name.startswith(others)):
            message = (
                f"spec.{field} names {name!r}, which is not a tool of this agent; write <server>__<tool> for one"
                " of spec.mcpServers, <plugin>__<tool> for one of spec.plugins, or ask_<peer> for one of spec.peers"
            )
            yield Violation("UnknownTool", message)


def _ruled(spec: AgentSpec) -> Iterator[tuple[str, str]]:
    yield from (("approvals.tools", name) for name in spec.approvals.tools or ())
    if spec.tool_search is not None:
        yield from (("toolSearch.always", name) for name in spec.tool_search.always or ())
    if spec.memory.knowledge is not None:
        yield from (("memory.knowledge.ingest", name) for name in spec.memory.knowledge.ingest or ())
    policy = spec.enforcement
    yield from (("enforcement.deny", name) for name in policy.deny or ())
    yield from (("enforcement.arguments", rule.tool) for rule in policy.arguments or ())
    yield from (("enforcement.limits", limit.tool) for limit in policy.limits or () if limit.tool != "*")


def _given_to_sub_agents(spec: AgentSpec) -> Iterator[tuple[str, str]]:
    for each in spec.sub_agents:
        yield from ((f"subAgents[{each.name}].tools", name) for name in each.tools or ())
