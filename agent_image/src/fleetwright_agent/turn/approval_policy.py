"""Decides which tools of a turn involve a person, by the configuration and by the caller. Pure.

A caller that is an agent gets no tools that ask a person, and may approve only if the configuration allows callers to
approve. A request with the agent's own credential can never approve.
"""

from collections.abc import Collection, Iterator, Mapping

from fleetwright_a2a.extensions import leaves_no_memory
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.approvals import Approver
from fleetwright_agent.config.budgets import Exceeded
from fleetwright_agent.config.callers import CallerKind
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.human.approval import always_declined, human_tools, with_approval
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import Tool


def with_human_tools(
    tools: Mapping[str, Tool], config: AgentConfig, owner: str, *, uncertain: Collection[str] = ()
) -> dict[str, Tool]:
    """The tools for this caller; `uncertain` names tools that need approval because a rule names an unknown tool."""
    wanted = needs_approval(config) | {*uncertain}
    me = f"{config.namespace}/{config.name}"
    may = may_approve(config, owner)
    guarded = {
        name: tool if name not in wanted else with_approval(tool, agent=me) if may else always_declined(tool)
        for name, tool in tools.items()
    }
    asking = human_tools() if config.ask_human and is_client(owner) else ()
    return guarded | {tool.name: tool for tool in asking}


def may_ask(config: AgentConfig) -> bool:
    """Return True if any turn may wait for a person, for any caller."""
    pauses = any(budget.on_exceeded is Exceeded.PAUSE for budget in config.budgets)
    # If a policy names a tool that a server or plugin does not offer, all of its tools need approval.
    others = [*(server.name for server in config.mcp_servers), *(plugin.name for plugin in config.plugins)]
    guarded = any(guarded_by_policy(config, name) for name in others)
    return config.ask_human or pauses or guarded or bool(needs_approval(config))


def needs_approval(config: AgentConfig) -> frozenset[str]:
    """The names of tools that need approval, as the model calls them."""
    by_server = (
        offered_name(f"{server.name}__{tool}") for server in config.mcp_servers for tool in server.require_approval
    )
    return frozenset(map(offered_name, (*config.approvals.tools, *by_server)))


def servers_of(config: AgentConfig) -> tuple[McpServer, ...]:
    """The servers, each with all tools that need approval, from both places in the configuration."""
    named = config.approvals.tools
    return tuple(
        server.model_copy(update={"require_approval": (*server.require_approval, *_of_server(named, server.name))})
        for server in config.mcp_servers
    )


def of_uncertain_plugins(tools: Collection[str], config: AgentConfig) -> Iterator[str]:
    """The tools of each plugin for which a policy or an approval names a tool that the plugin does not have.

    The intended tool may be available under another name.
    """
    for plugin in config.plugins:
        named = (*guarded_by_policy(config, plugin.name), *_of_server(config.approvals.tools, plugin.name))
        if {offered_name(f"{plugin.name}__{name}") for name in named} - {*tools}:
            yield from (tool for tool in tools if tool.startswith(f"{plugin.name}__"))


def guarded_by_policy(config: AgentConfig, server: str) -> list[str]:
    """The tools of a server or plugin that the agent's policy names, without the prefix."""
    policy = config.enforcement
    names = (*policy.deny, *(rule.tool for rule in policy.arguments), *(limit.tool for limit in policy.limits))
    return _of_server(names, server)


def _of_server(names: Collection[str], server: str) -> list[str]:
    prefix = f"{server}__"
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def may_approve(config: AgentConfig, owner: str) -> bool:
    if is_client(owner):
        return True
    me = f"{CallerKind.AGENT}:{config.namespace}/{config.name}"
    return config.approvals.by is Approver.CALLERS and owner != me


def is_client(owner: str) -> bool:
    return owner.startswith(f"{CallerKind.CLIENT}:")


def is_remembered(request: TurnRequest) -> bool:
    """Return True if the turn may be remembered. Agents speak for many callers, whose data must not mix."""
    return is_client(request.owner) and not leaves_no_memory(request.metadata)
