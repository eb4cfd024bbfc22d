"""Puts the operator together and runs it: Lease, barrier, workers, watches. Decides nothing about objects."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import kopf
from prometheus_client import CollectorRegistry

from fleetwright_operator import names
from fleetwright_operator.cluster.agent_status import AgentStatusReader
from fleetwright_operator.cluster.cache import Cache, Change
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.cluster.feed import LOST, Feed
from fleetwright_operator.cluster.port import OBSERVED, WATCHED, Api
from fleetwright_operator.handlers import kopf_settings, register
from fleetwright_operator.metrics import Metrics
from fleetwright_operator.reconcile import Reconciler
from fleetwright_operator.relations import OWN_KINDS, Key, Relations
from fleetwright_operator.reports import Reports, parse_report
from fleetwright_operator.settings import Settings
from fleetwright_operator.tokens import mint_token
from fleetwright_operator.vitals import Vitals
from fleetwright_operator.worker import work
from fleetwright_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)


def seconds_now() -> str:
    """The time of day as conditions write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds_now() -> str:
    """The time of day as Leases write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Program:
    """The parts between the API and the queue, without kopf and without the Lease: what tests drive."""

    def __init__(
        self,
        api: Api,
        *,
        settings: Settings,
        metrics: Metrics | None = None,
        now: Callable[[], str] = seconds_now,
        mint: Callable[[], str] = mint_token,
    ) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics(CollectorRegistry())
        self.queue: WorkQueue[Key] = WorkQueue()
        self.reports = Reports()
        self._relations = Relations(settings)
        self._live = False
        self.cache = Cache(terms=self._relations.terms)
        self.feed = Feed(api, self.cache, namespaces=settings.namespaces, on_change=self._changed)
        cluster = Cluster(api, self.cache, on_change=self._changed, on_write=self._count_write)
        self.reconcile = Reconciler(cluster, settings=settings, reports=self.reports, now=now, mint=mint)
        self.metrics.queue_depth.set_function(lambda: self.queue.depth)
        self.metrics.count_objects(lambda: (entry for kind in OWN_KINDS for entry in self.cache.all(kind)))

    async def synchronise(self) -> None:
        """The barrier: everything is known before anything is written."""
        await self.feed.list_all((*WATCHED, *OBSERVED))
        self._live = True

    async def resync(self, *, every: float, on_done: Callable[[], None]) -> None:
        """Lists everything again and again, for what a watch missed; until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.feed.list_all((*WATCHED, *OBSERVED))
            except LOST as error:
                logger.warning("resync failed", extra={"why": str(error) or repr(error)})
                continue
            on_done()
            for kind in OWN_KINDS:
                for entry in self.cache.all(kind):
                    self.queue.add(entry.id, fresh=False)

    def workers(self) -> list[Coroutine[Any, Any, None]]:
        return [work(self.queue, self.reconcile, metrics=self.metrics) for _ in range(self.settings.workers)]

    def agent_said(self, pod: Entry, document: Any) -> None:
        """An agent's own status; those that it concerns look again."""
        agent = pod.labels[names.AGENT_LABEL]
        servers = self.reports.put(pod.namespace, agent, parse_report(document))
        if servers:
            self.queue.add((names.AGENT, pod.namespace, agent))
        for server in servers:
            if self.cache.get(names.MCP_SERVER, pod.namespace, server):
                self.queue.add((names.MCP_SERVER, pod.namespace, server))

    def pods(self) -> list[Entry]:
        return list(self.cache.all("Pod"))

    def _changed(self, change: Change) -> None:
        for key in self._relations.affected(change, self.cache):
            if self.cache.get(*key) or key == change.entry.id:
                self.queue.add(key, fresh=self._live)

    def _count_write(self, verb: str, kind: str) -> None:
        self.metrics.api_writes.labels(verb=verb, kind=kind).inc()


async def lead(program: Program, vitals: Vitals, hold: Coroutine[Any, Any, None]) -> None:
    """Does the work for as long as the Lease is held. Returns on SIGTERM, which kopf listens for.

    Raises:
        LeaseLost: Another process may be writing already.
    """
    settings = program.settings
    reader = AgentStatusReader(program.pods, on_status=program.agent_said, clock=time.monotonic)
    holding = asyncio.create_task(hold)
    await program.synchronise()
    vitals.listed()
    parts = [
        *program.workers(),
        program.feed.watch_all(OBSERVED),
        program.resync(every=settings.resync_seconds, on_done=vitals.listed),
        reader.run(),
    ]
    tasks = [holding, *(asyncio.create_task(part) for part in parts)]
    await asyncio.sleep(0)  # kopf cancels what starts after it
    tasks.append(asyncio.create_task(_watch(program)))
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(program: Program) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, program.feed, WATCHED)
    # kopf names itself after its user, and ends where the pod's uid has no name.
    os.environ.setdefault("LOGNAME", "fleetwright")
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(WATCHED),
            standalone=True,
            clusterwide=not program.settings.namespaces,
            namespaces=program.settings.namespaces,
        )
    finally:
        asyncio.get_running_loop().set_exception_handler(_leaving)


def _leaving(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """On its way out kopf leaves its watches to the loop to close, which some of them protest against."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)
