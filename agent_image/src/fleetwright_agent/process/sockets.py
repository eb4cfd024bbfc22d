"""The socket of a door: on one address, or on all of them, of both families where the kernel has both.

A pod of an IPv6-only cluster is asked on such an address alone. One socket takes both, so that a free port is one port.
"""

import socket

from fleetwright_agent.config.mounted_files import ConfigurationError

EVERY = ""


def listen(host: str, port: int, *, both: bool | None = None) -> socket.socket:
    """`both` is whether one socket can take both families; the kernel is asked where it is not said.

    Raises:
        ConfigurationError: The address or the port cannot be had.
    """
    both = socket.has_dualstack_ipv6() if both is None else both
    wide = host == EVERY and both
    family = socket.AF_INET6 if wide or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), backlog=2048, family=family, dualstack_ipv6=wide)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"cannot listen on {host or 'every address'} port {port}: {error}") from error
