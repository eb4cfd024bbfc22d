"""The composition root: the only place that builds the parts of the operator and connects them.

A `Process` is built once. A new `Manager`, with an empty cache, is built each time the process becomes the leader.
"""

import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.event_recorder import EventRecorder
from fleetwright_kube.http_client import KubernetesApi
from fleetwright_kube.lease import Lease
from fleetwright_kube.login import login
from fleetwright_kube.port import Api
from fleetwright_kube.timestamps import (
    format_datetime,
    format_micro_time,
    parse_timestamp,
    time_of_day,
)
from fleetwright_kube.write_guard import WriteGuard
from fleetwright_operator.approvals.delivery import Deliver
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex
from fleetwright_operator.credentials.derived_tokens import operator_tokens
from fleetwright_operator.credentials.jws import new_secret
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.credentials.tokens import mint_token
from fleetwright_operator.kinds.resources import own_card_keys, own_gateway_keys, own_key_set
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.manager.agent_report_handler import AgentReportHandler, readable_pods
from fleetwright_operator.manager.agent_status_reader import AgentStatusReader
from fleetwright_operator.manager.approval_list_handler import ApprovalListHandler
from fleetwright_operator.manager.approval_poller import ApprovalPoller
from fleetwright_operator.manager.approvals_client import ApprovalsClient
from fleetwright_operator.manager.cache_sync import CacheSync
from fleetwright_operator.manager.enqueuer import Enqueuer
from fleetwright_operator.manager.health import ProcessHealth
from fleetwright_operator.manager.installation_conflicts import InstallationConflicts
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.manager.ops_server import ops_app, serve
from fleetwright_operator.manager.repair_events import RepairEvents
from fleetwright_operator.manager.transition_events import TransitionEvents
from fleetwright_operator.manager.warning_delay import SECONDS as WARNING_SECONDS
from fleetwright_operator.manager.warning_delay import WarningDelay
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.approvals import asking_agents
from fleetwright_operator.observe.index_keys import OWN_KINDS, Key
from fleetwright_operator.observe.watch_index import WatchIndex
from fleetwright_operator.reconcilers.agent import AgentReconciler
from fleetwright_operator.reconcilers.agent_sleep import AgentSleep
from fleetwright_operator.reconcilers.agent_storage import AgentStorage
from fleetwright_operator.reconcilers.approval import ApprovalReconciler
from fleetwright_operator.reconcilers.key_ring import KeyRingReconciler
from fleetwright_operator.reconcilers.mcp_server import McpServerReconciler
from fleetwright_operator.reconcilers.reconciler import Reconciler
from fleetwright_operator.reconcilers.skill import SkillReconciler
from fleetwright_operator.reconcilers.workspace import WorkspaceStep
from fleetwright_operator.rollout.mount_refresher import MountRefresher, repeat_seconds
from fleetwright_operator.rollout.preflight_backoff import PreflightBackoff
from fleetwright_operator.rollout.preflight_runner import PreflightRunner
from fleetwright_operator.rollout.probe_runner import ProbeRunner
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.slot_limiter import SlotLimiter, find_cloned, find_probed, find_rollouts
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReports


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Sources of time and randomness. Tests replace them."""

    now: Callable[[], str] = lambda: format_datetime(time_of_day())
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    mint: Callable[[], str] = mint_token
    new_secret: Callable[[], str] = new_secret

    def seconds(self) -> int:
        return parse_timestamp(self.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """The parts between the Kubernetes API and the work queue.

    kopf and the Lease are not among them, so that tests can drive the parts directly.
    """

    settings: Settings
    metrics: OperatorMetrics
    queue: WorkQueue[Key]
    cache: Cache
    cache_sync: CacheSync
    event_recorder: EventRecorder
    reconciler: Reconciler
    report_handler: AgentReportHandler
    status_reader: AgentStatusReader
    approval_lists: ApprovalListHandler
    approval_poller: ApprovalPoller
    approvals_client: ApprovalsClient


def build_manager(
    api: Api,
    *,
    settings: Settings,
    metrics: OperatorMetrics | None = None,
    clocks: Clocks | None = None,
    may_write: Callable[[], bool] = lambda: True,
    warning_seconds: float = WARNING_SECONDS,
    deliver: Deliver | None = None,
) -> Manager:
    """Args: `warning_seconds`: how long a condition must last before a Warning Event is recorded.

    `deliver` sends decisions to agents; by default over HTTP.
    """
    clocks = clocks or Clocks()
    metrics = metrics or OperatorMetrics(CollectorRegistry())
    queue: WorkQueue[Key] = WorkQueue(cap_seconds=settings.retry_cap_seconds)
    watch_index = WatchIndex(settings)
    cache = Cache(SCHEME, index_keys=watch_index.index_keys)
    write_guard = WriteGuard(clock=clocks.monotonic, on_delay=metrics.count_delayed_write)
    enqueuer = Enqueuer(watch_index, cache, queue, write_guard)
    event_recorder = EventRecorder(api, on_write=metrics.count_write)
    warnings = WarningDelay(event_recorder.record, seconds=warning_seconds)
    repairs = RepairEvents(cache, record_event=event_recorder.record, now=clocks.now, monotonic=clocks.monotonic)
    cluster = Cluster(
        api,
        cache,
        on_change=enqueuer.enqueue_own,
        on_apply=repairs.report_write,
        on_write=metrics.count_write,
        on_status=TransitionEvents(cache, warnings, now=clocks.now).record,
        may_write=may_write,
        write_guard=write_guard,
        clock=clocks.monotonic,
    )
    reports, asks = AgentReports(clocks.seconds), OpenApprovalIndex(clocks.seconds)
    client, lists = ApprovalsClient(), ApprovalListHandler(cache, asks, enqueuer.enqueue_woken)
    report_handler = AgentReportHandler(cache, reports, enqueuer.enqueue_reported)
    metrics.queue_depth.set_function(lambda: queue.depth)
    metrics.export_expiries(lambda: cache.all("Secret"))
    metrics.count_approvals(lambda: cache.all(names.APPROVAL))
    metrics.count_objects(
        lambda: (entry for kind in OWN_KINDS for entry in cache.all(kind)), installation=settings.installation
    )
    return Manager(
        settings=settings,
        metrics=metrics,
        queue=queue,
        cache=cache,
        cache_sync=CacheSync(api, cache, settings=settings, enqueuer=enqueuer, queue=queue),
        event_recorder=event_recorder,
        reconciler=_reconciler(
            cluster,
            settings,
            reports,
            clocks,
            write_guard=write_guard,
            wake=enqueuer.enqueue_woken,
            on_conflict=InstallationConflicts(settings, tell=event_recorder.record, now=clocks.now).report_conflict,
            asks=asks,
            approvals=ApprovalReconciler(
                cluster=cluster,
                settings=settings,
                asks=asks,
                now=clocks.now,
                deliver=deliver or client.deliver,
                tell=event_recorder.record,
                on_outcome=metrics.count_decision,
            ),
        ),
        report_handler=report_handler,
        status_reader=AgentStatusReader(
            lambda: list(readable_pods(cache, settings)), on_status=report_handler.handle, clock=time.monotonic
        ),
        approval_lists=lists,
        approval_poller=ApprovalPoller(
            lambda: list(asking_agents(cache, settings)),
            read=client.read,
            tokens=lambda agent: operator_tokens(
                stored_ring(cache.get(names.CARD_KEYS, *settings.card_keys_place)), agent.uid
            ),
            on_list=lists.handle,
            jitter=clocks.jitter,
        ),
        approvals_client=client,
    )


def _reconciler(
    cluster: Cluster,
    settings: Settings,
    reports: AgentReports,
    clocks: Clocks,
    *,
    write_guard: WriteGuard,
    wake: Callable[[Key], None],
    on_conflict: Callable[[CachedObject], None],
    asks: OpenApprovalIndex,
    approvals: ApprovalReconciler,
) -> Reconciler:
    """Args: `wake` queues an object whose rollout, probe or clone may start."""
    now, cache = clocks.now, cluster.cache
    schedule = ProbeSchedule(every=settings.discovery_seconds, clock=clocks.monotonic, jitter=clocks.jitter)
    preflights = PreflightRunner(
        cluster=cluster,
        limiter=SlotLimiter(
            cache, holders=lambda: find_rollouts(cache, now=clocks.seconds()), limit=settings.rollouts, wake=wake
        ),
        backoff=PreflightBackoff(clocks.seconds),
        settings=settings,
    )
    probes = ProbeRunner(
        cluster=cluster,
        limiter=SlotLimiter(
            cache, holders=lambda: find_probed(cache, now=clocks.seconds()), limit=settings.probes, wake=wake
        ),
    )
    return Reconciler(
        cluster,
        now=now,
        key_rings=_key_rings(cluster, settings, clocks),
        kinds={
            names.AGENT: AgentReconciler(
                cluster=cluster,
                settings=settings,
                reports=reports,
                now=now,
                mint=clocks.mint,
                preflights=preflights,
                asks=asks,
                storage=AgentStorage(cluster, clocks.seconds),
                mounts=MountRefresher(cluster, clocks.seconds, seconds=repeat_seconds(settings.token_lead_seconds)),
                sleep=AgentSleep(cluster=cluster, settings=settings, asks=asks, now=now),
                workspaces=WorkspaceStep(
                    cluster=cluster,
                    settings=settings,
                    schedule=schedule,
                    limiter=SlotLimiter(
                        cache,
                        holders=lambda: find_cloned(cache, now=clocks.seconds()),
                        limit=settings.probes,
                        wake=wake,
                    ),
                ),
            ),
            names.SKILL: SkillReconciler(cluster=cluster, settings=settings, now=now, schedule=schedule, probes=probes),
            names.MCP_SERVER: McpServerReconciler(
                cluster=cluster, settings=settings, reports=reports, now=now, schedule=schedule, probes=probes
            ),
        },
        approvals=approvals,
        write_guard=write_guard,
        settings=settings,
        on_conflict=on_conflict,
    )


def _key_rings(cluster: Cluster, settings: Settings, clocks: Clocks) -> dict[str, KeyRingReconciler]:
    cards, gateway = settings.card_keys_name, settings.gateway
    rings = {
        names.CARD_KEYS: KeyRingReconciler(
            cluster=cluster,
            secret=own_card_keys(cards),
            place=settings.card_keys_place,
            rotation=settings.card_rotation,
            published=own_key_set(cards),
            now=clocks.now,
            new_secret=clocks.new_secret,
        )
    }
    if gateway is not None and settings.gateway_keys_place is not None:
        rings[names.GATEWAY_KEYS] = KeyRingReconciler(
            cluster=cluster,
            secret=own_gateway_keys(gateway.keys_name),
            place=settings.gateway_keys_place,
            rotation=gateway.rotation,
            published=None,
            now=clocks.now,
            new_secret=clocks.new_secret,
        )
    return rings


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The parts that live as long as the process, whether it leads or not."""

    api: Api
    lease: Lease
    metrics: OperatorMetrics
    health: ProcessHealth
    new_manager: Callable[[Settings], Manager]


@asynccontextmanager
async def build_process(settings: Settings, *, today: Callable[[], datetime] = time_of_day) -> AsyncIterator[Process]:
    """Until the context exits, serve probes and metrics and keep a connection to the API server."""
    metrics = OperatorMetrics(CollectorRegistry())
    health = ProcessHealth(clock=time.monotonic, resync_seconds=settings.resync_seconds)
    runner = await serve(ops_app(health, metrics.registry), settings.ops_port)
    try:
        async with KubernetesApi(
            login,
            field_manager=SCHEME.field_manager,
            user_agent="fleetwright-operator",
            request_seconds=settings.request_seconds,
            may_write=lambda: lease.in_hand,
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
            clocks = Clocks(now=lambda: format_datetime(today()))

            def new_manager(settings: Settings) -> Manager:
                return build_manager(
                    api, settings=settings, metrics=metrics, clocks=clocks, may_write=lambda: lease.in_hand
                )

            yield Process(api=api, lease=lease, metrics=metrics, health=health, new_manager=new_manager)
    finally:
        await runner.cleanup()
