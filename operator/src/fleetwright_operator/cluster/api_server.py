"""Where the API server itself listens, behind its Service: of a managed cluster often at a public address.

Refuses to follow every change. An address that goes may come back, and stays denied for as long as this process
lives; one that is new makes the work begin anew, with it denied from the start.
"""

import ipaddress
import logging

from fleetwright_operator.address_space import Network, is_outside
from fleetwright_operator.cluster.port import Api, Resource
from fleetwright_operator.errors import Forbidden, Missing, OperatorError

logger = logging.getLogger(__name__)
_SLICES = Resource(kind="EndpointSlice", group="discovery.k8s.io", version="v1", plural="endpointslices")
_PLACE = ("default", "kubernetes")


class ApiServerMoved(OperatorError):  # noqa: N818 - named by what happened
    """It listens at a public address that is not denied yet."""


async def public_addresses(api: Api) -> frozenset[Network]:
    """Each as a range; none where nobody may ask, or where the cluster does not tell."""
    try:
        found = await api.get(_SLICES, *_PLACE)
    except Missing:
        return frozenset()
    except Forbidden as refused:
        remedy = "grant it, or set network.denyAPIServer to false and name the addresses in network.deniedRanges"
        logger.error("may not be read", extra={"kind": _SLICES.kind, "why": refused.message, "remedy": remedy})
        return frozenset()
    if found["addressType"] not in {"IPv4", "IPv6"}:
        return frozenset()
    addresses = [ipaddress.ip_address(text) for each in found.get("endpoints") or () for text in each["addresses"]]
    return frozenset(ipaddress.ip_network(address) for address in addresses if is_outside(address))


async def check_api_server(api: Api, denied: tuple[Network, ...]) -> None:
    """Raises ApiServerMoved."""
    if new := await public_addresses(api) - set(denied):
        raise ApiServerMoved(
            f"the API server listens at {', '.join(sorted(map(str, new)))}: begun anew with that denied"
        )
