"""Listening sockets: on one address, or on all addresses of both IP families if the kernel supports them.

A pod in an IPv6-only cluster has no IPv4 address. A single dual-stack socket serves both families on one port.
"""

import socket

from fleetwright_agent.config.mounted_files import ConfigurationError

EVERY = ""


def listen(host: str, port: int, *, both: bool | None = None) -> socket.socket:
    """Return a listening socket. `both` states whether one socket can serve both IP families (default: ask the kernel).

    Raises:
        ConfigurationError: The address or the port is not available.
    """
    both = socket.has_dualstack_ipv6() if both is None else both
    wide = host == EVERY and both
    family = socket.AF_INET6 if wide or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), backlog=2048, family=family, dualstack_ipv6=wide)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"cannot listen on {host or 'every address'} port {port}: {error}") from error
