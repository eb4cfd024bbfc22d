"""Assembles and runs the operator: initial list, workers and watches. It makes no decisions about objects."""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import kopf
from prometheus_client import CollectorRegistry

from fleetwright_operator.api import names
from fleetwright_operator.credentials.jws import new_secret
from fleetwright_operator.credentials.tokens import mint_token
from fleetwright_operator.encoding.timestamps import format_datetime, parse_timestamp, time_of_day
from fleetwright_operator.kube.cache import Cache, Change
from fleetwright_operator.kube.cached_object import CachedObject
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.kube.errors import ConflictError
from fleetwright_operator.kube.event_recorder import EventRecorder
from fleetwright_operator.kube.informer import TRANSIENT_ERRORS, Informer
from fleetwright_operator.kube.port import (
    CILIUM_POLICIES,
    OBSERVED,
    WATCHED,
    Api,
    Resource,
    own_card_keys,
    own_key_set,
)
from fleetwright_operator.manager.agent_status_reader import AgentStatusReader
from fleetwright_operator.manager.api_server_addresses import check_api_server
from fleetwright_operator.manager.cancellation import cancel_and_wait
from fleetwright_operator.manager.gc_tuning import tune_gc
from fleetwright_operator.manager.health import ProcessHealth
from fleetwright_operator.manager.kopf_handlers import kopf_settings, register
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.manager.warning_delay import SECONDS as WARNING_SECONDS
from fleetwright_operator.manager.warning_delay import WarningDelay
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.manager.worker import run_worker
from fleetwright_operator.observe.watch_index import OWN_KINDS, Key, WatchIndex
from fleetwright_operator.reconcilers.reconciler import Reconciler
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.settings import Cilium, Settings
from fleetwright_operator.status.agent_reports import AgentReports, parse_report
from fleetwright_operator.status.events import Notice, event_manifest, notices

logger = logging.getLogger(__name__)
_SOON_SECONDS = 10.0
_WATCH_PAUSE_SECONDS = 2.0


class Manager:
    """The parts between the Kubernetes API and the work queue, without kopf and the Lease, so that tests can drive
    them.
    """

    def __init__(
        self,
        api: Api,
        *,
        settings: Settings,
        metrics: OperatorMetrics | None = None,
        now: Callable[[], str] = lambda: format_datetime(time_of_day()),
        mint: Callable[[], str] = mint_token,
        new_secret: Callable[[], str] = new_secret,
        clock: Callable[[], float] = time.monotonic,
        may_write: Callable[[], bool] = lambda: True,
        warning_seconds: float = WARNING_SECONDS,
    ) -> None:
        """Args: `warning_seconds` is for how long a condition must hold before a Warning is sent."""
        self._api = api
        self.settings = settings
        self.metrics = metrics or OperatorMetrics(CollectorRegistry())
        self.queue: WorkQueue[Key] = WorkQueue(cap_seconds=settings.retry_cap_seconds)
        self.reports = AgentReports(lambda: parse_timestamp(now()))
        self._watch_index = WatchIndex(settings)
        self._live = False
        self.cache = Cache(index_keys=self._watch_index.index_keys)
        self.informer = Informer(api, self.cache, namespaces=settings.namespaces, on_change=self._changed)
        self._now = now
        self.event_recorder = EventRecorder(api, on_write=self._count_write)
        self._warnings = WarningDelay(self.event_recorder.record, seconds=warning_seconds)
        cluster = Cluster(
            api,
            self.cache,
            on_change=self._changed,
            on_write=self._count_write,
            on_status=self._record_transitions,
            may_write=may_write,
        )
        name = settings.card_keys_name
        others = () if settings.cilium is Cilium.OFF else (CILIUM_POLICIES,)
        self._watched = (*WATCHED, *OBSERVED, *others)
        self._own = (own_card_keys(name), own_key_set(name))
        self._own_informer = Informer(api, self.cache, namespaces=(settings.lease_namespace,), on_change=self._changed)
        self.reconcile = Reconciler(
            cluster,
            settings=settings,
            reports=self.reports,
            now=now,
            mint=mint,
            new_secret=new_secret,
            schedule=ProbeSchedule(every=settings.discovery_seconds, clock=clock, jitter=random.random),
            wake=self.queue.add,
        )
        self.metrics.queue_depth.set_function(lambda: self.queue.depth)
        self.metrics.export_expiries(lambda: self.cache.all("Secret"))
        self.metrics.count_objects(lambda: (entry for kind in OWN_KINDS for entry in self.cache.all(kind)))

    async def synchronise(self) -> set[str]:
        """List everything before anything is written, and return the kinds that may not be listed."""
        forbidden = await self._list_all()
        self._live = True
        return forbidden

    async def prepare(self) -> None:
        """Create the card keys before the first card, because signing later would write every card twice.

        If that fails, cards are unsigned for now.
        """
        key = (names.CARD_KEYS, *self.settings.card_keys_place)
        self.queue.add(key)
        # The list of the Secret and of the key set may have been stale. Each conflict refreshes one of them.
        for tries_left in (2, 1, 0):
            try:
                await self.reconcile(key)
                return
            except TRANSIENT_ERRORS as error:
                if not (tries_left and isinstance(error, ConflictError)):
                    logger.warning(
                        "card keys not written; cards are unsigned", extra={"why": str(error) or repr(error)}
                    )
                    return

    async def watch(self, forbidden: set[str]) -> None:
        """Watch everything that kopf does not watch, until cancelled."""
        kopfs = _kopfs(forbidden)
        ours = [resource for resource in self._watched if resource not in kopfs]
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.watch_all(ours))
            group.create_task(self._own_informer.watch_all(self._own))

    async def bridge(self, kopfs: Sequence[Resource]) -> None:
        """Watch kopf's kinds from our last list until kopf usually has a list of its own.

        kopf never reports objects that are deleted between the two lists.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * _SOON_SECONDS):
                await self.informer.watch_all(kopfs)

    async def resync(self, *, every: float, on_done: Callable[[], None]) -> None:
        """List everything periodically, for events that a watch missed; until cancelled, or until the API server moves.

        The first list follows soon, for events that the first watches missed.
        """
        await asyncio.sleep(min(every, _SOON_SECONDS))
        await self._listed_again()
        while True:
            await asyncio.sleep(every)
            if not await self._listed_again():
                continue
            on_done()
            for kind in OWN_KINDS:
                for entry in self.cache.all(kind):
                    self.queue.add(entry.id, fresh=False)

    async def _listed_again(self) -> bool:
        try:
            await self._list_all()
            if self.settings.deny_api_server:
                await check_api_server(self._api, self.settings)
        except TRANSIENT_ERRORS as error:
            logger.warning("resync failed", extra={"why": str(error) or repr(error)})
            return False
        return True

    async def _list_all(self) -> set[str]:
        refused = await asyncio.gather(self.informer.list_all(self._watched), self._own_informer.list_all(self._own))
        return set.union(*refused)

    def workers(self) -> list[Coroutine[Any, Any, None]]:
        stalled = self.settings.stalled_seconds
        return [
            run_worker(self.queue, self.reconcile, metrics=self.metrics, stalled_seconds=stalled)
            for _ in range(self.settings.workers)
        ]

    def on_agent_report(self, pod: CachedObject, document: Any) -> None:
        """Store an agent's report, and queue the objects that it concerns."""
        agent = pod.labels[names.AGENT_LABEL]
        before, report = self.reports.get(pod.namespace, agent), parse_report(document, pod=pod.name)
        servers = self.reports.put(pod.namespace, agent, report)
        entry = self.cache.get(names.AGENT, pod.namespace, agent)
        compiled = entry.projection["status"].get("card", {}).get("digest") if entry else None
        # An unchanged report is still relevant when the compiled card has changed.
        if report != before or (entry and report.card_digest != compiled):
            self.queue.add((names.AGENT, pod.namespace, agent))
        for server in servers:
            if self.cache.get(names.MCP_SERVER, pod.namespace, server):
                self.queue.add((names.MCP_SERVER, pod.namespace, server))

    def pods(self) -> list[CachedObject]:
        return list(self.cache.all("Pod"))

    def _changed(self, change: Change) -> None:
        for key in self._watch_index.keys_to_enqueue(change, self.cache):
            if self.cache.get(*key) or key == change.entry.id:
                self.queue.add(key, fresh=self._live and change.entry.kind != names.CARD_KEYS)

    def _record_transitions(self, entry: CachedObject, status: Mapping[str, Any]) -> None:
        about = {"kind": entry.kind, "namespace": entry.namespace, "name": entry.name, "uid": entry.uid}
        before = entry.projection["status"].get("conditions", ())
        for notice in notices(before, status["conditions"]):
            event = event_manifest(notice, about, now=self._now())
            self._warnings.submit(entry.uid, notice, event, stands=partial(self._stands, entry, notice))

    def _stands(self, known: CachedObject, notice: Notice) -> bool:
        """Return whether the condition still matches the notice."""
        entry = self.cache.get(*known.id)
        conditions = entry.projection["status"].get("conditions", ()) if entry and entry.uid == known.uid else ()
        return any((each["type"], each["reason"]) == (notice.condition, notice.reason) for each in conditions)

    def _count_write(self, verb: str, kind: str) -> None:
        self.metrics.api_writes.labels(verb=verb, kind=kind).inc()


async def lead(manager: Manager, health: ProcessHealth, hold: Coroutine[Any, Any, None]) -> None:
    """Run the operator while the Lease is held. Return on SIGTERM, which kopf handles.

    Raises:
        LeaseLostError: Another process may be writing already.
        LeaseExpiredError: The API server is unreachable, so no process writes.
        ApiServerMovedError: The API server has an address that the policies do not deny to agents yet.
    """
    holding = asyncio.create_task(hold)
    listing = asyncio.create_task(_listed(manager))
    tasks: list[asyncio.Task[Any]] = [holding, listing]
    try:
        await _first(tasks)
        health.record_list()
        tune_gc()
        await manager.prepare()
        tasks.remove(listing)
        tasks += [asyncio.create_task(part) for part in _parts(manager, health, listing.result())]
        await asyncio.sleep(0)  # kopf cancels tasks that start after it
        tasks.append(asyncio.create_task(_watch(manager, listing.result())))
        await _first(tasks)
    finally:
        await cancel_and_wait(tasks)


async def _first(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Return or raise as soon as the first task ends."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


async def _listed(manager: Manager) -> set[str]:
    """List everything, and retry until that succeeds."""
    while True:
        try:
            return await manager.synchronise()
        except TRANSIENT_ERRORS as error:
            logger.warning("cannot list yet", extra={"why": str(error) or repr(error)})
            await asyncio.sleep(1)


def _parts(manager: Manager, health: ProcessHealth, forbidden: set[str]) -> list[Coroutine[Any, Any, None]]:
    reader = AgentStatusReader(manager.pods, on_status=manager.on_agent_report, clock=time.monotonic)
    return [
        *manager.workers(),
        manager.watch(forbidden),
        manager.resync(every=manager.settings.resync_seconds, on_done=health.record_list),
        reader.run(),
        manager.event_recorder.run(),
    ]


async def _watch(manager: Manager, forbidden: set[str]) -> None:
    """Run kopf's watches until SIGTERM.

    A watch that kopf gives up stops kopf; then all watches start again from a list.
    """
    # kopf identifies itself by the user name, and exits if the pod's uid has none.
    os.environ.setdefault("LOGNAME", "fleetwright")
    while True:
        try:
            await _watch_once(manager, forbidden)
            return
        except Exception as error:  # kopf's own errors have no public names
            logger.warning("watches failed", extra={"why": str(error) or repr(error)})
            await asyncio.sleep(_WATCH_PAUSE_SECONDS)


async def _watch_once(manager: Manager, forbidden: set[str]) -> None:
    watched = _kopfs(forbidden)
    registry = kopf.OperatorRegistry()
    register(registry, manager.informer, watched)
    bridge = asyncio.create_task(manager.bridge(watched))
    await asyncio.sleep(0)  # kopf cancels tasks that start after it
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(request_seconds=manager.settings.request_seconds),
            standalone=True,
            clusterwide=not manager.settings.namespaces,
            namespaces=manager.settings.namespaces,
        )
    finally:
        bridge.cancel()
        asyncio.get_running_loop().set_exception_handler(_leaving)


def _kopfs(forbidden: set[str]) -> list[Resource]:
    """Return the kinds that users write and that may be listed. kopf would stop at a kind that may not be listed."""
    return [resource for resource in WATCHED if resource.kind in OWN_KINDS and resource.kind not in forbidden]


def _leaving(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors of async generators: kopf leaves its watches open at exit, and closing them raises."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)
