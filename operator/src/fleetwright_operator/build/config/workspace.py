"""The workspace in `agent.json`: its address, its tools, and which calls a person must approve. Pure."""

from typing import Any

from fleetwright_api import durations
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.encoder import encode

WHY = "spec.workspace.web.hosts"


def workspace_config(agent: AgentView, endpoints: Endpoints) -> dict[str, Any]:
    """Return the section; nothing without a workspace. The runtime applies the defaults of unset fields."""
    workspace = agent.spec.workspace
    if workspace is None:
        return {}
    timeout = workspace.shell.timeout
    shell = {
        **({"timeoutSeconds": durations.seconds(timeout)} if timeout else {}),
        **({"allow": list(workspace.shell.allow)} if workspace.shell.allow else {}),
    }
    sections = {
        "tools": list(workspace.tools or ()),
        "approvals": encode(workspace.approvals),
        "shell": shell,
        "webHosts": list(workspace.web.hosts),
    }
    used = {name: section for name, section in sections.items() if section}
    return {"workspace": {"url": endpoints.workspace(agent.namespace, agent.name), **used}}


def web_addresses(agent: AgentView) -> list[str]:
    """Return the addresses that the tool webfetch may read."""
    return [f"https://{host}" for host in agent.spec.workspace.web.hosts] if agent.spec.workspace else []
