"""Free ports, addresses and names for tests and control planes, different from all others on this machine.

A port that the kernel chooses for a listener is free again once the listener closes. Until the started program listens
on it, another listener or an outgoing connection may get the same port. The ports of this module are below the
ephemeral port range, and a counter in a file gives each process different ones. Names come from such a counter too.
"""

import fcntl
import ipaddress
import os
import secrets
import socket
from pathlib import Path

FIRST, LAST = 11000, 19999
"""`fleetwright dev` uses the ports from 20000."""
_COUNTERS = Path("/tmp")
"""Does not depend on TMPDIR, because tests that run at the same time may have different ones."""
_LAST_ADDRESS = 2**22 - 1
_LAST_NAME = 16**7 - 1
_NETWORK = ipaddress.ip_address("127.64.0.0")


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port on which nothing listens at this address. Raises `OSError` if no port is free."""
    for _ in range(FIRST, LAST + 1):
        port = _next_number("ports", FIRST, LAST)
        with socket.socket() as probe:
            # As a server does, this allows a port with closed connections that are still in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
        return port
    raise OSError(f"no port between {FIRST} and {LAST} is free at {address}")


def has_ipv6_loopback() -> bool:
    """Return whether servers can listen on `::1`. Python only knows whether the kernel was built with IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def free_ports() -> tuple[int, int]:
    return free_port(), free_port()


def free_address() -> str:
    """Return an address on loopback for a server with a fixed port, as each pod has. No other caller gets it."""
    return str(_NETWORK + _next_number("addresses", 1, _LAST_ADDRESS))


def next_name(prefix: str) -> str:
    """Return a name, such as that of a namespace: the prefix and seven hexadecimal digits. No other caller gets it.

    The counter starts at a random number, because the tests of another machine may use the same cluster.
    """
    number = _next_number("names", 0, _LAST_NAME, start=secrets.randbelow(_LAST_NAME + 1))
    return f"{prefix}-{number:07x}"


def _next_number(name: str, first: int, last: int, *, start: int | None = None) -> int:
    """Return the next number of the named counter, which continues with the first one after the last one.

    A new counter begins with `start`, by default with the first number.
    """
    counter = os.open(_COUNTERS / f"fleetwright-test-{name}-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(counter, fcntl.LOCK_EX)
        text = os.pread(counter, 16, 0)
        number = int(text) + 1 if text.isdigit() else first if start is None else start
        if not first <= number <= last:
            number = first
        os.pwrite(counter, str(number).encode(), 0)
    finally:
        os.close(counter)
    return number
