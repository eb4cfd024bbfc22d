"""The API server's addresses: agents are denied them, and the operator follows their changes."""

import ipaddress
from dataclasses import replace

import pytest

from fleetwright_kube.errors import ForbiddenError
from fleetwright_operator.manager.api_server_addresses import (
    ApiServer,
    ApiServerMovedError,
    api_server,
    with_denied_api_server,
)


def endpoints(*addresses, family="IPv4"):
    metadata = {"name": "kubernetes", "namespace": "default"}
    found = [{"addresses": [address]} for address in addresses]
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    return {
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": found,
        "ports": ports,
    }


SLICES = [
    pytest.param(
        endpoints("34.1.2.3", "10.0.0.5"), ["34.1.2.3/32"], ["10.0.0.5 6443"], id="a public address among private ones"
    ),
    pytest.param(endpoints("2a00::1", "fd00::1", family="IPv6"), ["2a00::1/128"], ["fd00::1 6443"], id="of version 6"),
    pytest.param(
        endpoints("192.168.1.2"), [], ["192.168.1.2 6443"], id="a private address, of which the port is denied"
    ),
    pytest.param({**endpoints("192.168.1.2"), "ports": None}, [], [], id="at no port yet"),
    pytest.param(endpoints("api.example.com", family="FQDN"), [], [], id="a name"),
    pytest.param({**endpoints(), "endpoints": None}, [], [], id="nobody ready"),
    pytest.param(None, [], [], id="a cluster that does not tell"),
]


@pytest.mark.parametrize(("found", "public", "private"), SLICES)
async def test_api_server_addresses_come_from_endpoint_slices(api, settings, found, public, private):
    if found:
        api.put(found)
    seen = with_denied_api_server(settings, await api_server(api))
    assert sorted(map(str, seen.denied_ranges)) == public
    assert sorted(f"{ip} {port}" for ip, port in seen.api_server) == private


async def test_api_server_logs_a_remedy_if_access_is_forbidden(api, caplog):
    async def refuse(*_):
        raise ForbiddenError("endpointslices is forbidden")

    api.get = refuse
    assert await api_server(api) == ApiServer()
    (line,) = caplog.records
    assert "network.deniedRanges" in line.remedy


async def resynced(api, make_world, settings, *, rounds=2):
    """Resync for that many rounds, or until the operator must restart its work."""
    done = []

    class Enough(Exception):  # noqa: N818 - not an error
        pass

    def on_done():
        done.append(1)
        if len(done) == rounds:
            raise Enough

    with pytest.raises(Enough):
        await make_world(api, settings).manager.cache_sync.resync(every=0.01, on_done=on_done)


async def test_new_public_api_server_address_restarts_the_manager(api, make_world, settings):
    api.put(endpoints("34.1.2.3"))
    with pytest.raises(ApiServerMovedError, match=r"34\.1\.2\.3/32"):
        await resynced(api, make_world, settings)
    await resynced(api, make_world, replace(settings, denied_ranges=(ipaddress.ip_network("34.1.2.3/32"),)))


async def test_known_api_server_address_that_returns_changes_nothing(api, make_world, settings):
    known = replace(settings, denied_ranges=tuple(map(ipaddress.ip_network, ("34.1.2.3/32", "34.1.2.4/32"))))
    api.put(endpoints("34.1.2.4"))
    await resynced(api, make_world, known)
    api.put(endpoints("34.1.2.3", "34.1.2.4"))
    await resynced(api, make_world, known)


async def test_new_private_api_server_address_restarts_the_manager(api, make_world, settings):
    api.put(endpoints("10.0.0.5"))
    with pytest.raises(ApiServerMovedError, match=r"10\.0\.0\.5 port 6443"):
        await resynced(api, make_world, settings)
    known = with_denied_api_server(settings, await api_server(api))
    await resynced(api, make_world, known)
    api.put(endpoints("10.0.0.6"))
    assert with_denied_api_server(known, await api_server(api)).api_server > known.api_server, (
        "earlier addresses stay denied"
    )


async def test_api_server_is_not_read_if_denial_is_disabled(api, make_world, settings):
    api.put(endpoints("34.1.2.3"))
    await resynced(api, make_world, replace(settings, deny_api_server=False))
    assert api.gets == []
