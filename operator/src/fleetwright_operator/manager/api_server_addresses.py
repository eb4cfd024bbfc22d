"""Finds the addresses of the API server behind its Service. In a managed cluster these addresses are often public.

A public address is denied on all ports. A private one is denied only on its port, because the address may be that of a
node with other services. Removed addresses may return, so they stay denied while this process lives. If there is a new
address, the operator denies it and starts again without cached state.
"""

import ipaddress
import logging
from dataclasses import dataclass, replace

from fleetwright_api.address_space import Endpoint, Network, is_globally_routable
from fleetwright_kube.errors import ForbiddenError, NotFoundError, OperatorError
from fleetwright_kube.port import Api, Resource
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)
_SLICES = Resource(kind="EndpointSlice", group="discovery.k8s.io", version="v1", plural="endpointslices")
_PLACE = ("default", "kubernetes")


class ApiServerMovedError(OperatorError):
    """The API server has an address that is not denied yet."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    public: frozenset[Network] = frozenset()
    private: frozenset[Endpoint] = frozenset()


async def api_server(api: Api) -> ApiServer:
    """Return the addresses; none if reading is forbidden or the cluster does not publish them."""
    try:
        found = await api.get(_SLICES, *_PLACE)
    except NotFoundError:
        return ApiServer()
    except ForbiddenError as refused:
        remedy = "grant it, or set network.denyAPIServer to false and name the addresses in network.deniedRanges"
        logger.error(
            "no permission to read a kind", extra={"kind": _SLICES.kind, "why": refused.message, "remedy": remedy}
        )
        return ApiServer()
    if found["addressType"] not in {"IPv4", "IPv6"}:
        return ApiServer()
    addresses = [ipaddress.ip_address(text) for each in found.get("endpoints") or () for text in each["addresses"]]
    ports = [each["port"] for each in found.get("ports") or () if each.get("port")]
    return ApiServer(
        public=frozenset(ipaddress.ip_network(address) for address in addresses if is_globally_routable(address)),
        private=frozenset(
            (address, port) for address in addresses if not is_globally_routable(address) for port in ports
        ),
    )


def with_denied_api_server(settings: Settings, found: ApiServer) -> Settings:
    """Return the settings with the found addresses denied as well. Earlier ones stay denied."""
    ranges = dict.fromkeys([*settings.denied_ranges, *sorted(found.public, key=str)])
    return replace(settings, denied_ranges=tuple(ranges), api_server=settings.api_server | found.private)


async def check_api_server(api: Api, settings: Settings) -> None:
    """Read the addresses again. Raises ApiServerMovedError if there is a new one."""
    found = await api_server(api)
    private = (f"{ip} port {port}" for ip, port in found.private - settings.api_server)
    if new := sorted([*map(str, found.public - set(settings.denied_ranges)), *private]):
        raise ApiServerMovedError(f"the API server listens at {', '.join(new)}: restarting with these addresses denied")
