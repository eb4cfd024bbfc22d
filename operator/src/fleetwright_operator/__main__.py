"""The `fleetwright-operator` program: read the settings, serve probes and metrics, acquire the Lease, and reconcile.

The program exits with status 1 when another process takes over its Lease. The kubelet then restarts the container,
which waits for the Lease again.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from fleetwright_kube.errors import OperatorError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.timestamps import time_of_day
from fleetwright_operator.environment import settings_from
from fleetwright_operator.manager import logs
from fleetwright_operator.manager.composition import build_process
from fleetwright_operator.manager.leadership import stand_by_and_lead
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)


async def run(settings: Settings, *, today: Callable[[], datetime] = time_of_day) -> None:
    """Wait for the Lease, lead while this process holds it, and release it on SIGTERM or SIGINT."""
    async with build_process(settings, today=today) as process:
        leading = asyncio.ensure_future(stand_by_and_lead(process, settings))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, leading.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await leading


def main() -> None:
    logs.configure(os.environ.get("FLEETWRIGHT_LOG_LEVEL", "INFO"))
    try:
        settings = settings_from(os.environ)
        # A restarted container must not mistake its predecessor's Lease for its own.
        unique = replace(settings, identity=f"{settings.identity}-{secrets.token_hex(3)}")
        asyncio.run(run(unique))
    except (OperatorError, ValueError, *TRANSIENT_ERRORS) as error:
        logger.error("stopped", extra={"why": str(error) or repr(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
