"""Push notification settings of an Agent: whether they are offered, and to which receivers. Pure.

If receivers are named, the network and the runtime allow only those. Otherwise all public addresses on ports 80 and 443
are allowed.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from fleetwright_api import names
from fleetwright_api.call_authorization import Agent
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings

WHY = "push notifications"
PORTS = (80, 443)
KEYS_FOLDER = "push"
_FIELD = "spec.a2a.push"


def offers_push(agent: Agent) -> bool:
    push = _push(agent)
    return push is not None and bool(push.get("enabled", True))


def receivers(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yield (field, URL) for every named host. The default port is 443."""
    if offers_push(agent):
        for number, host in enumerate(_hosts(agent)):
            yield f"{_FIELD}.allowedHosts[{number}]", f"https://{host}"


def ranges(agent: Agent, settings: Settings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (range, peer of a policy) for every named range."""
    if offers_push(agent):
        for cidr in _cidrs(agent):
            yield cidr, block_peer({"cidr": cidr}, denied=settings.denied_ranges)


def is_open(agent: Agent) -> bool:
    """Return whether no receiver is named."""
    return offers_push(agent) and not (_hosts(agent) or _cidrs(agent))


def push_range_problems(agent: Agent, settings: Settings) -> Iterator[str]:
    closed = {ip for ip, _ in settings.api_server}
    for number, cidr in enumerate(_cidrs(agent)):
        field = f"{_FIELD}.allowedCIDRs[{number}]"
        for problem in block_problems(field, {"cidr": cidr}, denied=settings.denied_ranges, closed=closed):
            yield problem.replace(f"{field}.cidr", field)


def push_config(agent: Agent) -> dict[str, Any]:
    """Return the section of `agent.json`, or nothing if push is not offered, so that the revision does not change."""
    if not offers_push(agent):
        return {}
    hosts = [_host(url) for _, url in receivers(agent)]
    named = {"allowedHosts": hosts, "allowedCidrs": list(_cidrs(agent))}
    return {
        "push": {"keyFile": f"{KEYS_FOLDER}/{names.PUSH_KEY}", **{key: value for key, value in named.items() if value}}
    }


def _host(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port or 443}


def _push(agent: Agent) -> Mapping[str, Any] | None:
    push: Mapping[str, Any] | None = agent["spec"].get("a2a", {}).get("push")
    return push


def _hosts(agent: Agent) -> tuple[str, ...]:
    return tuple((_push(agent) or {}).get("allowedHosts", ()))


def _cidrs(agent: Agent) -> tuple[str, ...]:
    return tuple((_push(agent) or {}).get("allowedCIDRs", ()))
