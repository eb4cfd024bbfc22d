"""Listening addresses: all addresses of every IP family that the kernel supports, or one configured address."""

import contextlib
import socket

import pytest
from tests.support.machine import ceiling

from fleetwright_agent.config.mounted_files import ConfigurationError
from fleetwright_agent.process.sockets import EVERY, listen

pytestmark = pytest.mark.process

LOOPBACKS = ("127.0.0.1", "::1")


def there(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_server((address, 0), family=family(address)):
        return True
    return False


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def opens(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=ceiling()):
        return True
    return False


@pytest.mark.parametrize("address", LOOPBACKS)
def test_listen_accepts_on_every_address(address: str) -> None:
    if not there(address):
        pytest.skip(f"this machine has no {address}")
    with listen(EVERY, 0) as door:
        assert opens(address, door.getsockname()[1])


def test_listen_uses_the_only_ip_family_of_the_kernel() -> None:
    with listen(EVERY, 0, both=False) as door:
        port = door.getsockname()[1]
        assert [opens(address, port) for address in LOOPBACKS] == [True, False]


@pytest.mark.parametrize("address", LOOPBACKS)
def test_listen_binds_only_the_configured_address(address: str) -> None:
    if not there(address):
        pytest.skip(f"this machine has no {address}")
    with listen(address, 0) as door:
        port = door.getsockname()[1]
        assert [opens(each, port) for each in LOOPBACKS] == [each == address for each in LOOPBACKS]


def test_listen_reports_a_port_in_use() -> None:
    with listen(EVERY, 0) as door, pytest.raises(ConfigurationError, match="cannot listen on every address port"):
        listen(EVERY, door.getsockname()[1])
