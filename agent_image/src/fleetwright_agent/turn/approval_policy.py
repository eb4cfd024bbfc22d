"""Which tools of a turn involve a person, by the configuration and by who asks. Pure.

A caller that is an agent is not asked: it is given no tool that asks, and approves nothing unless the configuration
says that callers may; an agent never approves by its own credential (PA-045, PA-046).
"""

from collections.abc import Collection, Iterator, Mapping

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.approvals import Approver
from fleetwright_agent.config.budgets import Exceeded
from fleetwright_agent.config.callers import CallerKind
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.extensions import leaves_no_memory
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.human.approval import gated, human_tools, shut
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import Tool


def with_people(
    tools: Mapping[str, Tool], config: AgentConfig, owner: str, *, uncertain: Collection[str] = ()
) -> dict[str, Tool]:
    """The tools as this caller's turn has them; `uncertain` names those of servers of which `unmatched` says so."""
    wanted = needs_approval(config) | {*uncertain}
    me = f"{config.namespace}/{config.name}"
    may = may_approve(config, owner)
    guarded = {
        name: tool if name not in wanted else gated(tool, agent=me) if may else shut(tool)
        for name, tool in tools.items()
    }
    asking = human_tools() if config.ask_human and is_client(owner) else ()
    return guarded | {tool.name: tool for tool in asking}


def may_ask(config: AgentConfig) -> bool:
    """Whether any turn may come to wait for a person, whoever its caller is."""
    pauses = any(budget.on_exceeded is Exceeded.PAUSE for budget in config.budgets)
    # A rule for a tool that its server or plugin does not offer puts all of that behind a person.
    others = [*(server.name for server in config.mcp_servers), *(plugin.name for plugin in config.plugins)]
    guarded = any(guarded_by_policy(config, name) for name in others)
    return config.ask_human or pauses or guarded or bool(needs_approval(config))


def needs_approval(config: AgentConfig) -> frozenset[str]:
    """The names of tools, as the model calls them."""
    by_server = (
        offered_name(f"{server.name}__{tool}") for server in config.mcp_servers for tool in server.require_approval
    )
    return frozenset(map(offered_name, (*config.approvals.tools, *by_server)))


def servers_of(config: AgentConfig) -> tuple[McpServer, ...]:
    """The servers, each with all of its tools that need approval, in whichever place the configuration names them."""
    named = config.approvals.tools
    return tuple(
        server.model_copy(update={"require_approval": (*server.require_approval, *_of_server(named, server.name))})
        for server in config.mcp_servers
    )


def of_uncertain_plugins(tools: Collection[str], config: AgentConfig) -> Iterator[str]:
    """The tools of every plugin of which the policy, or an approval, names one that it does not have: what was meant
    may be open under another name.
    """
    for plugin in config.plugins:
        named = (*guarded_by_policy(config, plugin.name), *_of_server(config.approvals.tools, plugin.name))
        if {offered_name(f"{plugin.name}__{name}") for name in named} - {*tools}:
            yield from (tool for tool in tools if tool.startswith(f"{plugin.name}__"))


def guarded_by_policy(config: AgentConfig, server: str) -> list[str]:
    """The tools of that server, or plugin, that the agent's policy names, as it calls them itself."""
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
    """An agent speaks for all its callers: what it said for one must not be remembered when it asks for another."""
    return is_client(request.owner) and not leaves_no_memory(request.metadata)
