"""The agents whose tool calls may wait for an approval. Pure."""

from collections.abc import Iterator

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.workspace import TOOLS


def may_request_approval(spec: AgentSpec) -> bool:
    """Return whether a tool call of the agent may wait for an approval.

    Plugins, images and executors of users may ask by themselves, so such agents count. If a rule names a tool that its
    server or plugin does not offer, all tools of that server need approval. Such rules therefore count too.
    """
    demanded = bool(spec.approvals.tools) or any(use.tools.require_approval for use in spec.mcp_servers)
    decides_itself = bool(spec.plugins) or spec.image is not None or spec.executor is not None
    return demanded or decides_itself or guards_source(spec) or workspace_asks(spec)


def guards_source(spec: AgentSpec) -> bool:
    """Return whether a rule names a tool of a server or a plugin of the agent."""
    sources = [*(use.name for use in spec.mcp_servers), *(plugin.name for plugin in spec.plugins)]
    prefixes = tuple(f"{name}__" for name in sources)
    return bool(prefixes) and any(name.startswith(prefixes) for name in _ruled(spec))


def workspace_asks(spec: AgentSpec) -> bool:
    """Return whether a change of a file or a command in the workspace may need an approval."""
    workspace = spec.workspace
    if workspace is None:
        return False
    tools, approvals = frozenset(workspace.tools or TOOLS), workspace.approvals
    edits = not tools.isdisjoint(("write_file", "edit_file")) and approvals.edits != "Auto"
    return edits or ("bash" in tools and approvals.shell != "Auto")


def account_of(agent: AgentView) -> str:
    """Return the username of the agent's own ServiceAccount."""
    account = agent.spec.service_account_name
    return names.service_account_user(agent.namespace, agent.name if account is None else account)


def _ruled(spec: AgentSpec) -> Iterator[str]:
    policy = spec.enforcement
    yield from policy.deny or ()
    yield from (rule.tool for rule in policy.arguments or ())
    yield from (limit.tool for limit in policy.limits or ())
