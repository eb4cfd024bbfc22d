"""Assembles an agent from its parts. This module does not import the model loop; the first task does."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from fleetwright_a2a.authentication import Identity
from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_a2a.card import Card, parse_card
from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.factory import audit_trail
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import Callers
from fleetwright_agent.config.enforcement import AuditMode
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.plugins.loading import Plugins, installed_entry_points
from fleetwright_agent.process.application import Application
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.protocol.frames import Turn
from fleetwright_agent.server.admin.erasure import ErasableStores, Erasure
from fleetwright_agent.server.auth import MountedTokens, parse_callers
from fleetwright_agent.server.executors.port import Executor
from fleetwright_agent.server.executors.turn_executor import TurnExecutor
from fleetwright_agent.server.executors.turn_loader import TurnLoader, load_turn
from fleetwright_agent.server.extensions import OF_CALLERS
from fleetwright_agent.server.ops.event_loop_watchdog import DEAD_SECONDS, STALLED_SECONDS, EventLoopWatchdog
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.push.service import DeliveryTimes, PushService, build_pushes
from fleetwright_agent.server.tasks.active_task import ignore_event
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.task_log import TaskLog
from fleetwright_agent.storage.volume import MemoryVolume
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD, Tracing
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.cost.task_usage import TaskUsage
from fleetwright_agent.turn.dependencies import TurnDependencies

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor

LOG_FILE: Final = "tasks.db"
RETRY_SECONDS: Final = 5.0


def create_app(
    config: AgentConfig,
    *,
    layout: Layout,
    turn: Turn | None = None,
    executor: "Executor | AgentExecutor | None" = None,
    log: TaskLog | None = None,
    storage: Storage | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    offers: ToolCache | None = None,
    installed_plugins: Callable[[], Iterable[EntryPoint]] | None = None,
    retry_seconds: float = RETRY_SECONDS,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
    dead_seconds: float = DEAD_SECONDS,
    push_times: DeliveryTimes | None = None,
    identity: Identity | None = None,
) -> Application:
    """Build the application. Parts that are not given are created from the configuration.

    `executor` may be any `AgentExecutor` of the a2a-sdk, and `identity` replaces the authentication.
    """
    clock, metrics = clock or Clock(), _declared(config, metrics or Metrics(CollectorRegistry()))
    plugins = Plugins(config.plugins, metrics, installed=installed_plugins or installed_entry_points)
    common = _common(
        config,
        layout,
        clock,
        metrics,
        storage or sqlite_storage(layout.memory, now=clock.now),
        offers=offers or ToolCache(),
        plugins=plugins,
    )
    turns = _turns(common, turn)
    log = log or SqliteTaskLog(layout.memory / LOG_FILE, lost=metrics.tasks_lost.inc, now_ns=clock.now_ns)
    parts = _parts(
        common,
        turns=turns,
        worker=_worker(common, executor, turns),
        log=log,
        pushes=_pushes(common, log, push_times or DeliveryTimes()),
        identity=identity,
        retry_seconds=retry_seconds,
        keepalive_seconds=keepalive_seconds,
        may_reply=executor is not None and not isinstance(executor, Executor),
    )
    heartbeat = EventLoopWatchdog(metrics.loop_stalls, stalled_seconds=stalled_seconds, dead_seconds=dead_seconds)
    return Application(parts, metrics=metrics, heartbeat=heartbeat)


@dataclass(frozen=True, slots=True)
class _Common:
    """The parts that several other parts depend on."""

    config: AgentConfig
    layout: Layout
    clock: Clock
    metrics: Metrics
    trail: AuditTrail
    books: CostAccounting
    storage: Storage
    gate: Admission
    offers: ToolCache
    plugins: Plugins
    card: FileWatcher[Card]
    extended: FileWatcher[Card]
    compaction: LastCompaction
    tracing: Tracing


def _common(
    config: AgentConfig,
    layout: Layout,
    clock: Clock,
    metrics: Metrics,
    storage: Storage,
    *,
    offers: ToolCache,
    plugins: Plugins,
) -> _Common:
    return _Common(
        config=config,
        layout=layout,
        clock=clock,
        metrics=metrics,
        trail=audit_trail(config, layout, metrics, clock),
        books=CostAccounting(
            config.budgets,
            storage.usage,
            metrics,
            open_calls=storage.open_calls,
            now=clock.now,
        ),
        storage=storage,
        gate=Admission(),
        offers=offers,
        plugins=plugins,
        card=FileWatcher(layout.card_file, parse_card),
        extended=FileWatcher(layout.extended_card_file, parse_card),
        compaction=LastCompaction(),
        tracing=_tracing(config, layout, metrics),
    )


def _tracing(config: AgentConfig, layout: Layout, metrics: Metrics) -> Tracing:
    if config.telemetry is None:
        return UNTOLD
    # Imported late: the SDK takes a tenth of the start.
    from fleetwright_agent.telemetry.otlp import OtlpTracing

    who = {
        "service.name": config.name,
        "service.namespace": config.namespace,
        "service.version": config.revision,
    }
    return OtlpTracing(
        config.telemetry, layout, resource=who, failures=metrics.trace_failures, denied=config.denied_ranges
    )


def _declared(config: AgentConfig, metrics: Metrics) -> Metrics:
    metrics.declare(
        [model.name for model in config.models],
        lines=config.lines,
        periods=[budget.period.value for budget in config.budgets],
    )
    metrics.agent_info.labels(config.name, config.namespace, config.revision).set(1)
    return metrics


def _turns(common: _Common, turn: Turn | None) -> TurnLoader:
    if turn is not None:
        return TurnLoader(lambda: turn)
    supplies = TurnDependencies(
        config=common.config,
        layout=common.layout,
        metrics=common.metrics,
        storage=common.storage,
        knowledge=common.storage.facts,
        skills=common.storage.skills,
        offers=common.offers,
        plugins=common.plugins,
        trail=common.trail,
        books=common.books,
        tracing=common.tracing,
    )
    return TurnLoader(load_turn(supplies), recovers=True)


def _worker(common: _Common, executor: "Executor | AgentExecutor | None", turns: TurnLoader) -> Executor:
    config = common.config
    if executor is None:
        return TurnExecutor(
            turns,
            myself=f"{config.namespace}/{config.name}",
            clock=common.clock,
            compaction=common.compaction,
            approval_seconds=config.approvals.expiry_seconds,
            extensions=config.extensions,
            tracing=common.tracing,
            bills=TaskUsage(common.storage.inflight, clock=common.clock.now),
        )
    if isinstance(executor, Executor):
        return executor
    # Imported late: the SDK's executor modules take a third of the start.
    from fleetwright_agent.server.executors.sdk_executor import SdkExecutor

    return SdkExecutor(executor, clock=common.clock)


def _pushes(common: _Common, log: TaskLog, times: DeliveryTimes) -> PushService | None:
    offered = common.config.push
    if offered is None:
        return None
    return build_pushes(
        offered,
        common.layout,
        log.pushes,
        metrics=common.metrics,
        clock=common.clock,
        times=times,
        denied=common.config.denied_ranges,
    )


def _runs(common: _Common, worker: Executor) -> TaskRunner:
    limits = common.config.limits
    return TaskRunner(
        worker,
        limit=limits.max_turn_seconds,
        stall=limits.stall_seconds,
        metrics=common.metrics,
        clock=common.clock,
        outlived=not common.config.ephemeral_memory,
    )


def _intake(common: _Common, log: TaskLog, tasks: ActiveTasks, runs: TaskRunner, *, foreign: bool) -> MessageAcceptor:
    """Build the message acceptor. A custom executor gets extensions and choices as the caller sent them."""
    limits = common.config.limits
    return MessageAcceptor(
        log=log,
        tasks=tasks,
        runs=runs,
        # The public card may omit skills that authenticated callers may use.
        cards=(common.extended, common.card),
        gate=common.gate,
        clock=common.clock,
        metrics=common.metrics,
        most=limits.max_tasks_per_caller,
        most_waiting=limits.max_waiting_tasks_per_caller,
        extensions=frozenset() if foreign else OF_CALLERS,
        choices={} if foreign else common.config.choices,
    )


def _stores(common: _Common, log: TaskLog) -> ErasableStores:
    audited = common.config.audit.mode is not AuditMode.OFF
    return ErasableStores(log, common.storage, common.trail, audited=audited)


def _tokens(common: _Common, callers: FileWatcher[Callers]) -> Identity:
    config = common.config
    return MountedTokens(callers, realm=config.name, clock=common.clock, api_keys=config.accept_api_key)


def _parts(
    common: _Common,
    *,
    turns: TurnLoader,
    worker: Executor,
    log: TaskLog,
    pushes: PushService | None,
    identity: Identity | None,
    retry_seconds: float,
    keepalive_seconds: float,
    may_reply: bool,
) -> Dependencies:
    tasks = ActiveTasks(log, common.clock, told=pushes.told if pushes else ignore_event)
    runs, callers = _runs(common, worker), FileWatcher(common.layout.callers_file, parse_callers)
    stores = _stores(common, log)
    return Dependencies(
        config=common.config,
        log=log,
        tasks=tasks,
        runs=runs,
        pushes=pushes,
        intake=_intake(common, log, tasks, runs, foreign=may_reply),
        turns=turns,
        storage=common.storage,
        stores=stores,
        erasure=Erasure(stores, tasks=tasks, runs=runs, gate=common.gate, clock=common.clock),
        volume=MemoryVolume(common.layout.memory, most_bytes=common.config.memory.max_bytes),
        gate=common.gate,
        trail=common.trail,
        tracing=common.tracing,
        books=common.books,
        callers=callers,
        identity=identity or _tokens(common, callers),
        card=common.card,
        extended=common.extended,
        compaction=common.compaction,
        log_level=LogLevel(common.layout.log_level_file),
        reachability=Reachability(common.config.mcp_servers, denied=common.config.denied_ranges),
        offers=common.offers,
        plugins=common.plugins,
        clock=common.clock,
        retry_seconds=retry_seconds,
        keepalive_seconds=keepalive_seconds,
        may_reply=may_reply,
    )
