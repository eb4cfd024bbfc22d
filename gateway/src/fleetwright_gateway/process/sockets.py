"""Listening sockets on all addresses of both IP families, if the kernel supports them."""

import socket


def listen(port: int, *, host: str = "", both: bool | None = None) -> socket.socket:
    """Return a listening socket. `both` states whether one socket can serve both IP families (default: ask the kernel).

    Raises:
        ValueError: The port is not available.
    """
    both = socket.has_dualstack_ipv6() if both is None else both
    wide = not host and both
    family = socket.AF_INET6 if wide or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), backlog=2048, family=family, dualstack_ipv6=wide)
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen on port {port}: {error}") from error
