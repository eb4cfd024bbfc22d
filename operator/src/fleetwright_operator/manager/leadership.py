"""Acquires the Lease, leads while the process holds it, and waits for it again after it has expired."""

import asyncio
import gc
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from fleetwright_api import names
from fleetwright_kube.errors import ConflictError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.lease import LeaseExpiredError
from fleetwright_kube.login import login
from fleetwright_kube.port import Api
from fleetwright_kube.token_audiences import api_audiences
from fleetwright_operator.manager.api_server_addresses import (
    ApiServerMovedError,
    api_server,
    with_denied_api_server,
)
from fleetwright_operator.manager.cancellation import cancel_and_wait
from fleetwright_operator.manager.composition import Manager, Process
from fleetwright_operator.manager.health import ProcessHealth
from fleetwright_operator.manager.kopf_watches import watch_with_kopf
from fleetwright_operator.manager.worker import run_worker
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)
_COLLECTION_THRESHOLD = 10_000
"""The number of new objects between two garbage collections.

Python's default is 700. Reference counts free nearly all objects.
"""


async def stand_by_and_lead(process: Process, settings: Settings) -> None:
    """Acquire the Lease and lead, until cancelled.

    When the Lease lapses or the API server moves, start again without cached state. Only the known addresses of the API
    server are kept.
    """
    lease, health, metrics = process.lease, process.health, process.metrics
    while True:
        settings = await _with_api_server(process.api, settings, health)
        logger.info("waiting for the Lease", extra={"identity": settings.identity})
        await lease.acquire()
        logger.info("leading", extra={"identity": settings.identity})
        health.set_leading(True)
        metrics.leader.set(1)
        try:
            await lead(process.new_manager(settings), health, lease.hold())
        except (LeaseExpiredError, ApiServerMovedError) as why:
            logger.warning("no longer leading", extra={"why": str(why)})
        finally:
            health.set_leading(False)
            metrics.leader.set(0)
            if lease.in_hand:
                await lease.release()


async def _with_api_server(api: Api, settings: Settings, health: ProcessHealth) -> Settings:
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


async def lead(manager: Manager, health: ProcessHealth, hold: Coroutine[Any, Any, None]) -> None:
    """Run the operator while the Lease is held, until cancelled.

    Raises:
        LeaseLostError: Another process may be writing already.
        LeaseExpiredError: The API server is unreachable, so no process writes.
        ApiServerMovedError: The API server has an address that the policies do not deny to agents yet.
    """
    holding = asyncio.create_task(hold)
    listing = asyncio.create_task(manager.cache_sync.synchronise_with_retries())
    tasks: list[asyncio.Task[Any]] = [holding, listing]
    try:
        await _wait_for_first(tasks)
        health.record_list()
        _tune_gc()
        await write_key_rings(manager)
        tasks.remove(listing)
        tasks += [asyncio.create_task(part) for part in _loops(manager, health, listing.result())]
        tasks.append(asyncio.create_task(watch_with_kopf(manager.cache_sync, manager.settings, listing.result())))
        await _wait_for_first(tasks)
    finally:
        await cancel_and_wait(tasks)
        await manager.approvals_client.close()


async def write_key_rings(manager: Manager) -> None:
    """Create the keys before the first agent, because adding them later would write every card and Secret twice.

    If creating the card keys fails, cards are unsigned for now. Without the gateway's keys, agents refuse its tokens.
    """
    settings = manager.settings
    await _write_key_ring(manager, (names.CARD_KEYS, *settings.card_keys_place))
    if settings.gateway_keys_place is not None:
        await _write_key_ring(manager, (names.GATEWAY_KEYS, *settings.gateway_keys_place))


async def _write_key_ring(manager: Manager, key: Key) -> None:
    manager.queue.add(key)
    # The cached Secret and the cached key set may be stale. Each conflict refreshes one of them.
    for tries_left in (2, 1, 0):
        try:
            await manager.reconciler(key)
            return
        except TRANSIENT_ERRORS as error:
            if not (tries_left and isinstance(error, ConflictError)):
                logger.warning("signing keys not written", extra={"keys": key[0], "why": str(error) or repr(error)})
                return


def workers(manager: Manager) -> list[Coroutine[Any, Any, None]]:
    stalled = manager.settings.stalled_seconds
    return [
        run_worker(manager.queue, manager.reconciler, metrics=manager.metrics, stalled_seconds=stalled)
        for _ in range(manager.settings.workers)
    ]


async def _wait_for_first(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Return or raise as soon as the first task ends."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


def _loops(manager: Manager, health: ProcessHealth, forbidden: set[str]) -> list[Coroutine[Any, Any, None]]:
    sync = manager.cache_sync
    return [
        *workers(manager),
        sync.watch(forbidden),
        sync.resync(every=manager.settings.resync_seconds, on_done=health.record_list),
        manager.status_reader.run(),
        manager.approval_poller.run(),
        manager.event_recorder.run(),
    ]


def _tune_gc() -> None:
    """Exclude all objects that exist now, such as modules and the first lists, from later collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
