"""The permissions that skills need: tools of servers that the agent names, and egress. Pure.

An agent gets the union of its skills' permissions. Tools that the agent or a server denies stay denied. A skill adds no
server.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_api.address_space import addresses_with_ports
from fleetwright_operator.build.config.tool_access import allowed_tools, denied_tools
from fleetwright_operator.build.network.addresses import HostAddress, UnusableAddress, parse_address
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings

Permissions = Mapping[str, Any]
"""`permissions` of one Skill. `fetchedFrom` is the URL of its git repository, if its pods fetch it."""
Needs = Mapping[str, Permissions]
"""Permissions by skill."""
Servers = Mapping[str, Mapping[str, Any]]


def permission_problems(permissions: Permissions, *, namespace: str, settings: Settings) -> Iterator[str]:
    """Yield permissions that no agent could get, with their fields."""
    for number, tool in enumerate(permissions.get("tools", ())):
        if not all(tool.partition("/")):
            yield f"spec.permissions.tools[{number}] {tool!r} must have the form <server>/<tool>"
    for number, need in enumerate(permissions.get("egress", ())):
        field = f"spec.permissions.egress[{number}]"
        if ("host" in need) == ("ipBlock" in need):
            yield f"{field} needs exactly one of host and ipBlock"
        elif "ipBlock" in need:
            closed = addresses_with_ports(settings.api_server, need["ports"])
            yield from block_problems(f"{field}.ipBlock", need["ipBlock"], denied=settings.denied_ranges, closed=closed)
        else:
            yield from _host_problems(f"{field}.host", need, namespace=namespace, settings=settings)


def _host_problems(field: str, need: Mapping[str, Any], *, namespace: str, settings: Settings) -> Iterator[str]:
    try:
        list(_addresses(need, namespace=namespace, settings=settings))
    except UnusableAddress as error:
        yield f"{field}: {error}"


def declared_permissions(permissions: Permissions | None) -> dict[str, Any] | None:
    """Return permissions for a Skill's status, without empty lists.

    An apply that drops an empty list leaves it in place.
    """
    return {key: needed for key, needed in (permissions or {}).items() if needed} or None


def needed_addresses(needs: Needs, *, namespace: str, settings: Settings) -> Iterator[tuple[str, HostAddress]]:
    """Yield (reason, address) for every host that skills need to reach.

    Raises:
        UnusableAddress: The address is invalid; `permission_problems` reports it.
    """
    for skill, permissions in needs.items():
        if url := permissions.get("fetchedFrom"):
            yield (
                f"skill {skill}, fetched from git",
                parse_address(url, namespace=namespace, settings=settings),
            )
        for need in permissions.get("egress", ()):
            for address in _addresses(need, namespace=namespace, settings=settings):
                yield reason(skill, need), address


def needed_ranges(needs: Needs, settings: Settings) -> Iterator[tuple[str, str, dict[str, Any], tuple[int, ...]]]:
    """Yield (reason, range, peer of a policy, ports) for every range that skills need to reach."""
    for skill, permissions in needs.items():
        for need in permissions.get("egress", ()):
            if block := need.get("ipBlock"):
                peer = block_peer(block, denied=settings.denied_ranges)
                yield reason(skill, need), block["cidr"], peer, tuple(need["ports"])


def reason(skill: str, need: Mapping[str, Any]) -> str:
    return f"skill {skill}: {need['why']}" if "why" in need else f"skill {skill}"


def widened(use: Mapping[str, Any], needs: Needs) -> Mapping[str, Any]:
    """Return an agent's use of a server, with the tools that its skills need allowed as well."""
    tools = use.get("tools", {})
    if "allow" not in tools:
        return use  # without a list, everything that is not denied is allowed
    wanted = (tool.split("/", 1) for permissions in needs.values() for tool in permissions.get("tools", ()))
    needed = [tool for server, tool in wanted if server == use["name"]]
    return {**use, "tools": {**tools, "allow": list(dict.fromkeys([*tools["allow"], *needed]))}}


def permissions_status(agent: Mapping[str, Any], servers: Servers, needs: Needs) -> dict[str, Any] | None:
    """Return the union of what the agent's skills need, and whether each tool is granted."""
    by_tool: dict[str, list[str]] = {}
    for skill, permissions in needs.items():
        for tool in permissions.get("tools", ()):
            by_tool.setdefault(tool, []).append(skill)
    uses = {use["name"]: widened(use, needs) for use in agent["spec"].get("mcpServers", ())}
    tools = [
        {"name": tool, "skills": skills, "granted": _is_granted(tool, uses, servers)}
        for tool, skills in sorted(by_tool.items())
    ]
    ways = [
        {"to": need.get("host") or need["ipBlock"]["cidr"], "ports": list(need["ports"]), "why": reason(skill, need)}
        for skill, permissions in needs.items()
        for need in permissions.get("egress", ())
    ]
    found = {**({"tools": tools} if tools else {}), **({"egress": ways} if ways else {})}
    return found or None


def _is_granted(tool: str, uses: Mapping[str, Mapping[str, Any]], servers: Servers) -> bool:
    server, name = tool.split("/", 1)
    if server not in uses:
        return False
    allowed = allowed_tools(uses[server], servers[server])
    return name not in denied_tools(uses[server], servers[server]) and (allowed is None or name in allowed)


def _addresses(need: Mapping[str, Any], *, namespace: str, settings: Settings) -> Iterator[HostAddress]:
    if host := need.get("host"):
        for port in need["ports"]:
            yield parse_address(f"https://{host}:{port}", namespace=namespace, settings=settings)
