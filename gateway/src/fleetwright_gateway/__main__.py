"""The `fleetwright-gateway` program: read the settings, follow the cluster, and serve callers until a signal."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable

import uvloop

from fleetwright_gateway.app import build_gateway, following
from fleetwright_gateway.cluster.resources import FIELD_MANAGER
from fleetwright_gateway.process.serving import collect_less_often, freeze_objects, leave_on_signal, serve
from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.settings import GatewaySettings, settings_from
from fleetwright_gateway.telemetry import logs
from fleetwright_kube.errors import OperatorError
from fleetwright_kube.http_client import ApiCredentials, KubernetesApi
from fleetwright_kube.pod_login import pod_login

logger = logging.getLogger(__name__)


async def run(settings: GatewaySettings, *, login: Callable[[], ApiCredentials] | None = None) -> None:
    """Serve until a signal. Args: `login` returns the credentials for the API server; by default those of the pod."""
    leaving = asyncio.Event()
    leave_on_signal(leaving)
    traffic, ops = listen(settings.port), listen(settings.ops_port)
    collect_less_often()
    async with (
        KubernetesApi(
            login or (lambda: pod_login(os.environ, folder=settings.service_account)),
            field_manager=FIELD_MANAGER,
            user_agent="fleetwright-gateway",
        ) as api,
        build_gateway(api, settings) as gateway,
        # The objects of the cache stay for long, so later collections exclude them too.
        following(gateway.synchroniser, on_filled=freeze_objects) as watching,
    ):
        # A broken watch must not leave a process that serves an old cache.
        watching.add_done_callback(lambda _: leaving.set())
        await serve(
            gateway.traffic,
            gateway.ops,
            traffic_socket=traffic,
            ops_socket=ops,
            drain_seconds=settings.drain_seconds,
            leaving=leaving,
        )


def main() -> None:
    logs.configure(os.environ.get("FLEETWRIGHT_LOG_LEVEL", "INFO"))
    try:
        uvloop.run(run(settings_from(os.environ)))
    except (OperatorError, ValueError, OSError) as error:
        logger.error("stopped", extra={"why": str(error) or repr(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
