"""The permissions that skills need: tools of servers that the agent names, and egress. Pure.

An agent gets the union of its skills' permissions. Tools that the agent or a server denies stay denied. A skill cannot
add a server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fleetwright_api.address_space import addresses_with_ports
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_api.spec.skill import NeededEgressSpec, PermissionsSpec, SkillNeeds
from fleetwright_api.spec.tools import ServerUseSpec
from fleetwright_operator.build.config.tool_access import allowed_tools, denied_tools
from fleetwright_operator.build.network.addresses import HostAddress, UnusableAddress, parse_address
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings

Needs = Mapping[str, SkillNeeds]
"""The needs of skills, by skill name."""
Servers = Mapping[str, McpServerView]


def permission_problems(permissions: PermissionsSpec, *, namespace: str, settings: Settings) -> Iterator[str]:
    """Yield permissions that no agent could get, with their fields."""
    for number, tool in enumerate(permissions.tools):
        if not all(tool.partition("/")):
            yield f"spec.permissions.tools[{number}] {tool!r} must have the form <server>/<tool>"
    for number, need in enumerate(permissions.egress):
        field = f"spec.permissions.egress[{number}]"
        if (need.host is None) == (need.ip_block is None):
            yield f"{field} needs exactly one of host and ipBlock"
        elif need.ip_block is not None:
            closed = addresses_with_ports(settings.api_server, need.ports)
            yield from block_problems(f"{field}.ipBlock", need.ip_block, denied=settings.denied_ranges, closed=closed)
        else:
            yield from _host_problems(f"{field}.host", need, namespace=namespace, settings=settings)


def _host_problems(field: str, need: NeededEgressSpec, *, namespace: str, settings: Settings) -> Iterator[str]:
    try:
        list(_addresses(need, namespace=namespace, settings=settings))
    except UnusableAddress as error:
        yield f"{field}: {error}"


def declared_permissions(permissions: PermissionsSpec) -> dict[str, Any] | None:
    """Return permissions for a Skill's status, without empty lists.

    A later apply that omits an empty list would not remove it.
    """
    return encode(permissions) or None


def needed_addresses(needs: Needs, *, namespace: str, settings: Settings) -> Iterator[tuple[str, HostAddress]]:
    """Yield (reason, address) for every host that skills need to reach.

    Raises:
        UnusableAddress: The address is invalid; `permission_problems` reports it.
    """
    for skill, needed in needs.items():
        if git := needed.fetched_from:
            proxy = "" if git.proxy_url is None else ", through its proxy"
            yield (
                f"skill {skill}, fetched from git{proxy}",
                parse_address(git.destination, namespace=namespace, settings=settings),
            )
        for need in needed.permissions.egress:
            for address in _addresses(need, namespace=namespace, settings=settings):
                yield reason(skill, need), address


def needed_ranges(needs: Needs, settings: Settings) -> Iterator[tuple[str, str, dict[str, Any], tuple[int, ...]]]:
    """Yield (reason, range, peer of a policy, ports) for every range that skills need to reach."""
    for skill, needed in needs.items():
        for need in needed.permissions.egress:
            if block := need.ip_block:
                peer = block_peer(block, denied=settings.denied_ranges)
                yield reason(skill, need), block.cidr, peer, need.ports


def reason(skill: str, need: NeededEgressSpec) -> str:
    return f"skill {skill}" if need.why is None else f"skill {skill}: {need.why}"


def widened(use: ServerUseSpec, needs: Needs) -> ServerUseSpec:
    """Return an agent's use of a server, with the tools that its skills need allowed as well."""
    allowed = use.tools.allow
    if allowed is None:
        return use  # without a list, everything that is not denied is allowed
    wanted = (tool.split("/", 1) for each in needs.values() for tool in each.permissions.tools)
    needed = [tool for server, tool in wanted if server == use.name]
    return replace(use, tools=replace(use.tools, allow=tuple(dict.fromkeys([*allowed, *needed]))))


def permissions_status(spec: AgentSpec, servers: Servers, needs: Needs) -> dict[str, Any] | None:
    """Return the union of what the agent's skills need, and whether each tool is granted."""
    by_tool: dict[str, list[str]] = {}
    for skill, needed in needs.items():
        for tool in needed.permissions.tools:
            by_tool.setdefault(tool, []).append(skill)
    uses = {use.name: widened(use, needs) for use in spec.mcp_servers}
    tools = [
        {"name": tool, "skills": skills, "granted": _is_granted(tool, uses, servers)}
        for tool, skills in sorted(by_tool.items())
    ]
    ways = [
        {"to": _destination(need), "ports": list(need.ports), "why": reason(skill, need)}
        for skill, needed in needs.items()
        for need in needed.permissions.egress
    ]
    found = {**({"tools": tools} if tools else {}), **({"egress": ways} if ways else {})}
    return found or None


def _is_granted(tool: str, uses: Mapping[str, ServerUseSpec], servers: Servers) -> bool:
    server, name = tool.split("/", 1)
    if server not in uses:
        return False
    allowed = allowed_tools(uses[server], servers[server])
    return name not in denied_tools(uses[server], servers[server]) and (allowed is None or name in allowed)


def _addresses(need: NeededEgressSpec, *, namespace: str, settings: Settings) -> Iterator[HostAddress]:
    if need.host:
        for port in need.ports:
            yield parse_address(f"https://{need.host}:{port}", namespace=namespace, settings=settings)


def _destination(need: NeededEgressSpec) -> str:
    return need.host or (need.ip_block.cidr if need.ip_block else "")
