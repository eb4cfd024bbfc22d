"""The agent's policy for tools: which tools are denied or need approval, and which callers may approve. Pure.

A caller that is an agent may approve only if the configuration allows callers to approve. A request with the agent's
own credential can never approve.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.approvals import Approver
from fleetwright_agent.config.budgets import Exceeded
from fleetwright_agent.config.callers import VIA, is_client
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.human.approval import with_approval
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import Tool


def governed_tools(tools: Mapping[str, Tool], config: AgentConfig, *, denies: Callable[[str], bool]) -> dict[str, Tool]:
    """Return the tools that the policy allows, and add the required approvals to them.

    Args: `denies` returns True for the name of a denied tool.
    """
    guarded = {*needs_approval(config), *of_uncertain_plugins(tools, config)}
    allowed = {name: tool for name, tool in tools.items() if not denies(name)}
    return {name: with_approval(tool) if name in guarded else tool for name, tool in allowed.items()}


def may_ask(config: AgentConfig) -> bool:
    """Return True if the configuration allows any turn to wait for a person."""
    pauses = any(budget.on_exceeded is Exceeded.PAUSE for budget in config.budgets)
    # If a policy names a tool that a server or plugin does not have, all tools of that server or plugin need approval.
    others = [*(server.name for server in config.mcp_servers), *(plugin.name for plugin in config.plugins)]
    guarded = any(guarded_by_policy(config, name) for name in others)
    return config.ask_human or pauses or guarded or bool(needs_approval(config)) or config.workspace_asks


def needs_approval(config: AgentConfig) -> frozenset[str]:
    """Return the names of the tools that need approval, as the model calls them."""
    by_server = (
        offered_name(f"{server.name}__{tool}") for server in config.mcp_servers for tool in server.require_approval
    )
    return frozenset(map(offered_name, (*config.approvals.tools, *by_server)))


def servers_of(config: AgentConfig) -> tuple[McpServer, ...]:
    """Return the servers with a complete `require_approval`.

    The field then lists the tools that the server's own entry names, and those that `approvals` names.
    """
    named = config.approvals.tools
    return tuple(
        server.model_copy(update={"require_approval": (*server.require_approval, *_of_server(named, server.name))})
        for server in config.mcp_servers
    )


def of_uncertain_plugins(tools: Collection[str], config: AgentConfig) -> Iterator[str]:
    """Yield all tools of each plugin that lacks a restricted tool.

    A restricted tool is one that the configuration denies, limits or makes subject to approval. The plugin may offer
    the intended tool under another name.
    """
    for plugin in config.plugins:
        named = (*guarded_by_policy(config, plugin.name), *_of_server(config.approvals.tools, plugin.name))
        if {offered_name(f"{plugin.name}__{name}") for name in named} - {*tools}:
            yield from (tool for tool in tools if tool.startswith(f"{plugin.name}__"))


def guarded_by_policy(config: AgentConfig, server: str) -> list[str]:
    """Return the tools of a server or plugin that the agent's policy names, without the prefix."""
    policy = config.enforcement
    names = (*policy.deny, *(rule.tool for rule in policy.arguments), *(limit.tool for limit in policy.limits))
    return _of_server(names, server)


def _of_server(names: Collection[str], server: str) -> list[str]:
    prefix = f"{server}__"
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def may_wait_for_approval(config: AgentConfig, owner: str) -> bool:
    """Return True if a task of this caller may wait for an approval, apart from the role of the caller."""
    return config.approvals.by is Approver.REVIEWERS or _is_approver(config, owner)


def may_approve(config: AgentConfig, owner: str) -> bool:
    """Return True if this caller may approve the tool calls of its own tasks, with an answer to the task."""
    return CallerAction.REQUEST_APPROVAL in config.actions_of(owner) and _is_approver(config, owner)


def _is_approver(config: AgentConfig, owner: str) -> bool:
    """Return True if `approvals.by` allows this caller to approve."""
    if config.approvals.by is Approver.REVIEWERS:
        return False
    if is_client(owner):
        return True
    # An agent never approves its own calls, neither directly nor as an agent that acts for a person.
    return config.approvals.by is Approver.CALLERS and owner.rpartition(VIA)[2] != config.as_caller
