"""Names and ranges of local clusters."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from e2e.cluster.identity import OCTETS, Identity, derive, name_of, overlaps
from e2e.cluster.progress import ClusterError

HERE = Path("/home/somebody/fleetwright")


def free(_network: IPv4Network) -> bool:
    return False


def test_identity_of_a_checkout_is_stable() -> None:
    assert derive(HERE, free) == derive(HERE, free)


def test_identity_name_differs_between_checkouts() -> None:
    assert name_of(HERE) != name_of(HERE / "copy")


def test_identity_name_fits_into_an_interface_name() -> None:
    assert len(name_of(HERE)) <= 15


def test_identity_derive_skips_a_range_that_is_already_routed() -> None:
    first = derive(HERE, free)
    second = derive(HERE, overlaps([str(first.everything)]))
    assert second.name == first.name
    assert not second.everything.overlaps(first.everything)


def test_identity_derive_wraps_around_to_the_last_free_range() -> None:
    last = Identity(name_of(HERE), OCTETS.start)
    taken = [f"10.{octet}.0.0/16" for octet in OCTETS if octet != last.octet]
    assert derive(HERE, overlaps(taken)) == last


def test_identity_derive_refuses_if_every_range_is_routed() -> None:
    with pytest.raises(ClusterError, match=r"10\.64\.0\.0/16 to 10\.191\.0\.0/16"):
        derive(
            HERE,
            overlaps([f"10.{first}.0.0/12" for first in range(64, 192, 16)]),
        )


@pytest.mark.parametrize(
    ("route", "hit"),
    [
        pytest.param("10.70.3.0/24", True, id="a smaller network inside counts"),
        pytest.param("10.70.0.9", True, id="a single host counts"),
        pytest.param("default", False, id="the default route does not count"),
        pytest.param("10.71.0.0/16", False, id="a neighbour does not count"),
    ],
)
def test_overlaps_detects_routes_within_a_range(route: str, hit: bool) -> None:
    assert overlaps([route])(IPv4Network("10.70.0.0/16")) is hit


def test_identity_networks_do_not_overlap() -> None:
    identity = derive(HERE, free)
    parts = [IPv4Network(identity.services), IPv4Network(identity.pods), IPv4Network(f"10.{identity.octet}.0.0/24")]
    assert all(part.subnet_of(identity.everything) for part in parts)
    assert not any(a.overlaps(b) for a in parts for b in parts if a is not b)


def test_identity_socket_paths_stay_short() -> None:
    assert len(str(derive(HERE, free).sockets / "containerd.sock.ttrpc")) < 60


@pytest.mark.parametrize("octet", [pytest.param(63, id="below the ranges"), pytest.param(192, id="above the ranges")])
def test_identity_refuses_an_octet_out_of_range(octet: int) -> None:
    with pytest.raises(ValueError, match="octet"):
        Identity("fw-000000", octet)


def test_identity_derive_accepts_the_wide_route_of_a_vpn() -> None:
    assert derive(HERE, overlaps(["10.0.0.0/8", "default"])) == derive(HERE, free)
