"""Why an agent may do what it does: its connections, its tools and its permissions, each with the reason. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.workspace import TOOLS
from fleetwright_cli.cluster.tables import render, visible

Object = Mapping[str, Any]
_UNKNOWN: Final = "nothing is known yet"


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of permission. Each entry is what is allowed, and why."""

    key: str
    """The name in the JSON output."""
    title: str
    entries: Sequence[tuple[str, str]] = field(default_factory=list)
    empty_text: str = ""
    """The sentence for an empty section."""


def sections(agent: Object, *, missing_operator: str = "", sleep: Sequence[tuple[str, str]] = ()) -> list[Section]:
    """Return everything that the agent's spec and status say about its permissions.

    Args:
        agent: The Agent object.
        missing_operator: Why no operator works on the agent; empty if one does.
        sleep: What keeps the agent awake, or that it sleeps; empty for an agent that never sleeps.
    """
    status = agent.get("status") or {}
    workspace = status.get("workspace") or {}
    unserved = [("Operator", missing_operator)] if missing_operator else []
    reached_by_workspace = list(_directed(workspace, "egress", "to"))
    has_workspace = parse_agent(agent).spec.workspace is not None
    workspace_section = Section(
        "workspaceEgress", "Destinations that its workspace may reach", reached_by_workspace, "no network"
    )
    return [
        Section("problems", "Problems", [*unserved, *_problems(status)], "none: all conditions are healthy"),
        *([Section("sleep", "Sleep", sleep)] if sleep else []),
        Section(
            "ingress", "Clients that may connect", list(_directed(status, "ingress", "from")), "nothing is known yet"
        ),
        Section(
            "egress", "Destinations that it may reach", list(_directed(status, "egress", "to")), "nothing is known yet"
        ),
        *([workspace_section] if has_workspace else []),
        Section("tools", "Tools", list(_tools(agent)), "none"),
        Section("permissions", "Permissions of its skills", list(_permissions(status)), "its skills need none"),
    ]


def document(found: Sequence[Section]) -> dict[str, list[dict[str, str]]]:
    """Return the sections as data, for programs."""
    return {each.key: [{"what": what, "why": why} for what, why in each.entries] for each in found}


def text(found: Sequence[Section]) -> str:
    """Return the sections for people."""
    blocks = []
    for section in found:
        rows = [(f"  {visible(what)}", visible(why)) for what, why in section.entries]
        blocks.append("\n".join([f"{section.title}:", render(rows) if rows else f"  {section.empty_text}"]))
    return "\n\n".join(blocks)


def _problems(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the conditions that are not as they should be. `Ready` only repeats the reason of another condition."""
    stages = {"Accepted", "ReferencesResolved", "Programmed", "Available", "WorkspaceReady"}
    for each in status.get("conditions") or ():
        is_stage = each["type"] in stages
        if (is_stage and each["status"] != "True") or (not is_stage and each["type"] != "Ready"):
            yield f"{each['type']} ({each['reason']})", each.get("message", "")


def _directed(status: Mapping[str, Any], field_name: str, key: str) -> Iterator[tuple[str, str]]:
    for each in status.get(field_name) or ():
        yield str(each[key]), str(each["why"])


def _tools(agent: Object) -> Iterator[tuple[str, str]]:
    spec = parse_agent(agent).spec
    offered = {each["server"]: each for each in (agent.get("status") or {}).get("tools") or ()}
    for use in spec.mcp_servers:
        known = offered.get(use.name)
        count = f"{known['count']} tools" if known else "not listed yet"
        allowed = f"only {', '.join(use.tools.allow)}" if use.tools.allow is not None else "all that it offers"
        denied = f", without {', '.join(use.tools.deny)}" if use.tools.deny else ""
        yield f"McpServer {use.name}: {count}", f"spec.mcpServers: {allowed}{denied}"
        for name in (known or {}).get("missing") or ():
            yield f"{use.name}/{name}: missing", "the server does not offer this tool"
        for name in use.tools.require_approval:
            yield f"{use.name}/{name}: asks a person", "spec.mcpServers.tools.requireApproval"
    if spec.workspace is not None:
        yield ", ".join(spec.workspace.tools or TOOLS), "spec.workspace"
    for peer in spec.peers:
        yield f"ask_{peer.name}", "spec.peers"
    for skill in spec.skills:
        yield f"load_skill {skill.name}", "spec.skills"
    for name in spec.approvals.tools or ():
        yield f"{name}: asks a person", "spec.approvals.tools"
    for name in spec.enforcement.deny or ():
        yield f"{name}: never called", "spec.enforcement.deny"


def _permissions(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    needed = status.get("permissions") or {}
    for tool in needed.get("tools") or ():
        granted = "granted" if tool["granted"] else "not granted: the agent or the server denies it"
        yield f"{tool['name']}: {granted}", f"skill {', '.join(tool['skills'])}"
    for each in needed.get("egress") or ():
        yield f"{each['to']}, port {', '.join(map(str, each['ports']))}", str(each["why"])
