"""Where the API server itself listens, behind its Service: of a managed cluster often at a public address.

A public address is denied whole. Of a private one only the port is, for it may be a node's, with other things on it.
Refuses to follow every change. An address that goes may come back, and stays denied for as long as this process
lives; one that is new makes the work begin anew, with it denied from the start.
"""

import ipaddress
import logging
from dataclasses import dataclass, replace

from fleetwright_operator.api.address_space import Endpoint, Network, is_outside
from fleetwright_operator.kube.errors import Forbidden, Missing, OperatorError
from fleetwright_operator.kube.port import Api, Resource
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)
_SLICES = Resource(kind="EndpointSlice", group="discovery.k8s.io", version="v1", plural="endpointslices")
_PLACE = ("default", "kubernetes")


class ApiServerMoved(OperatorError):  # noqa: N818 - named by what happened
    """It listens where it is not denied yet."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    public: frozenset[Network] = frozenset()
    private: frozenset[Endpoint] = frozenset()


async def api_server(api: Api) -> ApiServer:
    """Nowhere, where nobody may ask, or where the cluster does not tell."""
    try:
        found = await api.get(_SLICES, *_PLACE)
    except Missing:
        return ApiServer()
    except Forbidden as refused:
        remedy = "grant it, or set network.denyAPIServer to false and name the addresses in network.deniedRanges"
        logger.error("may not be read", extra={"kind": _SLICES.kind, "why": refused.message, "remedy": remedy})
        return ApiServer()
    if found["addressType"] not in {"IPv4", "IPv6"}:
        return ApiServer()
    addresses = [ipaddress.ip_address(text) for each in found.get("endpoints") or () for text in each["addresses"]]
    ports = [each["port"] for each in found.get("ports") or () if each.get("port")]
    return ApiServer(
        public=frozenset(ipaddress.ip_network(address) for address in addresses if is_outside(address)),
        private=frozenset((address, port) for address in addresses if not is_outside(address) for port in ports),
    )


def denying(settings: Settings, found: ApiServer) -> Settings:
    """The settings with what was found denied too; what was denied before stays."""
    ranges = dict.fromkeys([*settings.denied_ranges, *sorted(found.public, key=str)])
    return replace(settings, denied_ranges=tuple(ranges), api_server=settings.api_server | found.private)


async def check_api_server(api: Api, settings: Settings) -> None:
    """Raises ApiServerMoved."""
    found = await api_server(api)
    private = (f"{ip} port {port}" for ip, port in found.private - settings.api_server)
    if new := sorted([*map(str, found.public - set(settings.denied_ranges)), *private]):
        raise ApiServerMoved(f"the API server listens at {', '.join(new)}: begun anew with that denied")
