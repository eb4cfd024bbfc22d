"""The `fleetwright-operator` program: read the settings, serve probes and metrics, acquire the Lease, and reconcile.

The program exits with status 1 when another process holds the Lease. The kubelet then restarts the container, which
waits for the Lease again.
"""

import asyncio
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from prometheus_client import CollectorRegistry

from fleetwright_operator.encoding.timestamps import format_datetime, format_micro_time, time_of_day
from fleetwright_operator.kube.errors import OperatorError
from fleetwright_operator.kube.http_client import KubernetesApi
from fleetwright_operator.kube.informer import TRANSIENT_ERRORS
from fleetwright_operator.kube.login import login
from fleetwright_operator.kube.token_audiences import api_audiences
from fleetwright_operator.manager import logs
from fleetwright_operator.manager.api_server_addresses import ApiServerMovedError, api_server, with_denied_api_server
from fleetwright_operator.manager.health import ProcessHealth
from fleetwright_operator.manager.leader_election import Lease, LeaseExpiredError
from fleetwright_operator.manager.manager import Manager, lead
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.manager.ops_server import ops_app, serve
from fleetwright_operator.settings import Settings, settings_from

logger = logging.getLogger(__name__)


async def run(settings: Settings, *, today: Callable[[], datetime] = time_of_day) -> None:
    """Wait for the Lease, lead while it is held, and release it on SIGTERM."""
    metrics = OperatorMetrics(CollectorRegistry())
    health = ProcessHealth(clock=time.monotonic, resync_seconds=settings.resync_seconds)
    runner = await serve(ops_app(health, metrics.registry), settings.ops_port)
    try:
        async with KubernetesApi(
            login, request_seconds=settings.request_seconds, may_write=lambda: lease.in_hand
        ) as api:
            lease = Lease(
                api,
                namespace=settings.lease_namespace,
                name=settings.lease_name,
                identity=settings.identity,
                now=lambda: format_micro_time(today()),
                clock=time.monotonic,
                on_attempt=health.record_request,
            )

            def manager(settings: Settings) -> Manager:
                return Manager(
                    api,
                    settings=settings,
                    metrics=metrics,
                    now=lambda: format_datetime(today()),
                    may_write=lambda: lease.in_hand,
                )

            await _stand_by_and_lead(api, manager, lease, settings, metrics, health)
    finally:
        await runner.cleanup()


async def _stand_by_and_lead(
    api: KubernetesApi,
    manager: Callable[[Settings], Manager],
    lease: Lease,
    settings: Settings,
    metrics: OperatorMetrics,
    health: ProcessHealth,
) -> None:
    """Acquire the Lease and lead, until SIGTERM.

    When the Lease lapses or the API server moves, start again without cached state. Only the known addresses of the API
    server are kept.
    """
    while True:
        settings = await _seeing_the_api_server(api, settings, health)
        logger.info("waiting for the Lease", extra={"identity": settings.identity})
        await lease.acquire()
        logger.info("leading", extra={"identity": settings.identity})
        health.set_leading(True)
        metrics.leader.set(1)
        try:
            await lead(manager(settings), health, lease.hold())
            return
        except (LeaseExpiredError, ApiServerMovedError) as why:
            logger.warning("no longer leading", extra={"why": str(why)})
        finally:
            health.set_leading(False)
            metrics.leader.set(0)
            if lease.in_hand:
                await lease.release()


async def _seeing_the_api_server(api: KubernetesApi, settings: Settings, health: ProcessHealth) -> Settings:
    """Return the settings with the API server's audiences and addresses added.

    Waits until the addresses are known. Policies that are written without them would open the API server to agents.
    """
    settings = replace(settings, api_audiences=settings.api_audiences | api_audiences(login().token))
    while settings.deny_api_server:
        try:
            return with_denied_api_server(settings, await api_server(api))
        except TRANSIENT_ERRORS as error:
            logger.warning("cannot read the addresses of the API server yet", extra={"why": str(error) or repr(error)})
            health.record_request()
            await asyncio.sleep(1)
    return settings


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
