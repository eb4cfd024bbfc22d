"""Push notification settings of an Agent: whether they are offered, and to which receivers. Pure.

If the spec names receivers, the network policy and the runtime allow only these. Otherwise all public addresses on
ports 80 and 443 are allowed.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.network import IpBlock
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings

WHY = "push notifications"
PORTS = (80, 443)
KEYS_FOLDER = "push"
_FIELD = "spec.a2a.push"


def offers_push(spec: AgentSpec) -> bool:
    push = spec.a2a.push
    return push is not None and push.enabled


def receivers(spec: AgentSpec) -> Iterator[tuple[str, str]]:
    """Yield (field, URL) for every named host. The default port is 443."""
    if offers_push(spec):
        for number, host in enumerate(_hosts(spec)):
            yield f"{_FIELD}.allowedHosts[{number}]", f"https://{host}"


def ranges(spec: AgentSpec, settings: Settings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (range, peer of a policy) for every named range."""
    if offers_push(spec):
        for cidr in _cidrs(spec):
            yield cidr, block_peer(IpBlock(cidr=cidr), denied=settings.denied_ranges)


def is_open(spec: AgentSpec) -> bool:
    """Return whether the spec names no receiver."""
    return offers_push(spec) and not (_hosts(spec) or _cidrs(spec))


def push_range_problems(spec: AgentSpec, settings: Settings) -> Iterator[str]:
    closed = {ip for ip, _ in settings.api_server}
    for number, cidr in enumerate(_cidrs(spec)):
        field = f"{_FIELD}.allowedCIDRs[{number}]"
        for problem in block_problems(field, IpBlock(cidr=cidr), denied=settings.denied_ranges, closed=closed):
            yield problem.replace(f"{field}.cidr", field)


def push_config(spec: AgentSpec) -> dict[str, Any]:
    """Return the section of `agent.json`, or nothing if push is not offered, so that the revision does not change."""
    if not offers_push(spec):
        return {}
    hosts = [_host(url) for _, url in receivers(spec)]
    named = {"allowedHosts": hosts, "allowedCidrs": list(_cidrs(spec))}
    return {
        "push": {"keyFile": f"{KEYS_FOLDER}/{names.PUSH_KEY}", **{key: value for key, value in named.items() if value}}
    }


def _host(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port or 443}


def _hosts(spec: AgentSpec) -> tuple[str, ...]:
    return spec.a2a.push.allowed_hosts if spec.a2a.push else ()


def _cidrs(spec: AgentSpec) -> tuple[str, ...]:
    return spec.a2a.push.allowed_cidrs if spec.a2a.push else ()
