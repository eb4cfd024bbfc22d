"""Starts the egress proxy: `python -m fleetwright_workspace.proxy --listen HOST:PORT --rules JSON`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

from fleetwright_workspace.options import parse_options
from fleetwright_workspace.proxy.egress_rules import EgressRules, parse_rules
from fleetwright_workspace.proxy.proxy_server import EgressProxy

_DRAIN_SECONDS = 20.0
_ENDPOINT_SECONDS = 5.0
"""The time in which every node learns that the pod ends. Until then, some still send new connections to it."""


def main(
    create: Callable[[EgressRules], EgressProxy] = EgressProxy, *, endpoint_seconds: float = _ENDPOINT_SECONDS
) -> None:
    options = parse_options(sys.argv[1:], ("listen", "rules"), {})
    host, _, port = options["listen"][0].rpartition(":")
    if not port.isdigit():
        sys.exit(f"--listen: {options['listen'][0]} is not HOST:PORT")
    try:
        proxy = create(parse_rules(options["rules"][0]))
    except ValueError as error:
        sys.exit(f"--rules: {error}")
    asyncio.run(_serve(proxy, host.strip("[]"), int(port), endpoint_seconds))


async def _serve(proxy: EgressProxy, host: str, port: int, endpoint_seconds: float) -> None:
    """Serve until SIGTERM, and accept connections a little longer. Those that are open then have some time to end."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await proxy.listen(host, port)
    await ended.wait()
    await asyncio.sleep(endpoint_seconds)
    server.close()
    await proxy.drain(_DRAIN_SECONDS)


if __name__ == "__main__":
    main()
