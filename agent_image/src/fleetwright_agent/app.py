"""Builds the application. The model loop is imported when the first task runs, not by this module."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from fleetwright_a2a.authentication import Identity
from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_a2a.card import Card, parse_card
from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.factory import audit_trail, redactor
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.plugins.loading import Plugins, installed_entry_points
from fleetwright_agent.process.application import Application
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.protocol.turn import Turn
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.export import MemoryExport
from fleetwright_agent.server.admin.routes import Admin
from fleetwright_agent.server.approvals.decision_acceptor import DecisionAcceptor
from fleetwright_agent.server.approvals.open_approvals import OpenApprovals
from fleetwright_agent.server.auth import MountedTokens, parse_callers, parse_operators
from fleetwright_agent.server.executors.port import Executor
from fleetwright_agent.server.executors.turn_executor import TurnExecutor
from fleetwright_agent.server.executors.turn_loader import TurnLoader, load_turn
from fleetwright_agent.server.extensions import LASTING, OF_CALLERS
from fleetwright_agent.server.gateway_tokens import GatewayTokens, parse_gateway_keys
from fleetwright_agent.server.ops.event_loop_watchdog import DEAD_SECONDS, STALLED_SECONDS, EventLoopWatchdog
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.push.service import DeliveryTimes, PushService, build_pushes
from fleetwright_agent.server.retention import Retention
from fleetwright_agent.server.tasks.active_task import ActiveTask, PublishHook
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.answer_checks import AnswerChecks
from fleetwright_agent.server.tasks.interrupt_expiry import InterruptExpiry
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.request_handler import TaskRequestHandler
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.task_log import TaskDelegations, TaskLog
from fleetwright_agent.storage.volume import MemoryVolume
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD, Tracing
from fleetwright_agent.tools.approval_policy import may_approve
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
    tool_cache: ToolCache | None = None,
    installed_plugins: Callable[[], Iterable[EntryPoint]] | None = None,
    retry_seconds: float = RETRY_SECONDS,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
    dead_seconds: float = DEAD_SECONDS,
    push_times: DeliveryTimes | None = None,
    identity: Identity | None = None,
) -> Application:
    """Build the application. Parts that are not given are created from the configuration.

    `executor` may be any `AgentExecutor` of the a2a-sdk. `identity` replaces the authentication by mounted tokens.
    """
    clock, metrics = clock or Clock(), _declared(config, metrics or Metrics(CollectorRegistry()))
    storage = storage or sqlite_storage(layout.memory, now=clock.now)
    plugins = Plugins(config.plugins, metrics, installed=installed_plugins or installed_entry_points)
    task_log = log or SqliteTaskLog(layout.memory / LOG_FILE, lost=metrics.tasks_lost.inc, now_ns=clock.now_ns)
    parts = _turn_dependencies(config, layout, clock, metrics, storage, task_log, tool_cache or ToolCache(), plugins)
    turns = TurnLoader(load_turn(parts), recovers=True) if turn is None else TurnLoader(lambda: turn)
    last_compaction = LastCompaction()
    pushes = _push_service(parts, task_log, push_times or DeliveryTimes())
    activity = TaskActivity(clock)
    redact = redactor(layout)
    approvals = OpenApprovals(task_log, redact=redact)
    hooks = (activity.on_event, approvals.on_event, *([pushes.on_event] if pushes else []))
    tasks = ActiveTasks(task_log, clock, on_event=_on_event(hooks), on_forget=approvals.forget)
    worker = _executor(parts, executor, turns, last_compaction)
    runs = _task_runner(parts, worker)
    callers, admission = FileWatcher(layout.callers_file, parse_callers), Admission()
    card, extended_card = (FileWatcher(path, parse_card) for path in (layout.card_file, layout.extended_card_file))
    is_custom = executor is not None and not isinstance(executor, Executor)
    # The public card may omit skills that authenticated callers may use.
    cards = (extended_card, card)
    answers = AnswerChecks(may_approve=partial(may_approve, config), edits=worker)
    acceptor = _message_acceptor(
        parts, task_log, tasks, runs, cards=cards, admission=admission, answers=answers, is_custom=is_custom
    )
    erasure = Erasure(task_log, storage, parts.audit_trail, tasks=tasks, runs=runs, admission=admission, clock=clock)
    export = MemoryExport(task_log, storage, parts.audit_trail)
    return Application(
        Dependencies(
            turn=parts,
            turn_loader=turns,
            last_compaction=last_compaction,
            task_log=task_log,
            activity=activity,
            active_tasks=tasks,
            task_runner=runs,
            message_acceptor=acceptor,
            request_handler=TaskRequestHandler(
                acceptor,
                log=task_log,
                tasks=tasks,
                runs=runs,
                activity=activity,
                pushes=pushes,
                extended=extended_card,
                may_reply=is_custom,
                most_streams=config.limits.max_streams_per_caller,
            ),
            push_service=pushes,
            callers=callers,
            identity=identity
            or MountedTokens(
                callers,
                realm=config.name,
                clock=clock,
                gateway=GatewayTokens(FileWatcher(layout.gateway_file, parse_gateway_keys), clock=clock),
                operators=FileWatcher(layout.operator_file, parse_operators),
                api_keys=config.accept_api_key,
            ),
            card=card,
            admin=Admin(config.administrators, erasure=erasure, export=export, audit_trail=parts.audit_trail),
            open_approvals=approvals,
            decision_acceptor=DecisionAcceptor(
                task_log,
                tasks,
                runs,
                acceptor,
                answers=answers,
                redact=redact,
                admission=admission,
                clock=clock,
                metrics=metrics,
            ),
            erasure=erasure,
            interrupt_expiry=InterruptExpiry(
                log=task_log, tasks=tasks, runs=runs, turns=turns, storage=storage, activity=activity, clock=clock
            ),
            retention=_retention(parts, task_log, admission),
            curator=Curator(config, storage.skills, tell=parts.audit_trail.note, metrics=metrics, clock=clock),
            reachability=Reachability(config.mcp_servers, denied=config.denied_ranges),
            watchdog=EventLoopWatchdog(metrics.loop_stalls, stalled_seconds=stalled_seconds, dead_seconds=dead_seconds),
            log_level=LogLevel(layout.log_level_file),
            retry_seconds=retry_seconds,
            keepalive_seconds=keepalive_seconds,
            has_custom_executor=is_custom,
        )
    )


def _turn_dependencies(
    config: AgentConfig,
    layout: Layout,
    clock: Clock,
    metrics: Metrics,
    storage: Storage,
    delegations: TaskDelegations,
    tool_cache: ToolCache,
    plugins: Plugins,
) -> TurnDependencies:
    return TurnDependencies(
        config=config,
        layout=layout,
        clock=clock,
        metrics=metrics,
        storage=storage,
        delegations=delegations,
        audit_trail=audit_trail(config, layout, metrics, clock),
        cost_accounting=CostAccounting(
            config.budgets, storage.usage, metrics, open_calls=storage.open_calls, now=clock.now
        ),
        tool_cache=tool_cache,
        plugins=plugins,
        tracing=_tracing(config, layout, metrics),
    )


def _retention(parts: TurnDependencies, task_log: TaskLog, admission: Admission) -> Retention:
    memory = parts.config.memory
    return Retention(
        memory,
        volume=MemoryVolume(parts.layout.memory, most_bytes=memory.max_bytes),
        admission=admission,
        log=task_log,
        storage=parts.storage,
        metrics=parts.metrics,
        clock=parts.clock,
    )


def _tracing(config: AgentConfig, layout: Layout, metrics: Metrics) -> Tracing:
    if config.telemetry is None:
        return UNTOLD
    # Imported lazily: importing the OpenTelemetry SDK takes a tenth of the startup time.
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


def _executor(
    parts: TurnDependencies,
    executor: "Executor | AgentExecutor | None",
    turns: TurnLoader,
    last_compaction: LastCompaction,
) -> Executor:
    """Return the given executor, or the executor that runs turns."""
    config = parts.config
    if executor is None:
        return TurnExecutor(
            turns,
            myself=f"{config.namespace}/{config.name}",
            clock=parts.clock,
            compaction=last_compaction,
            approvals=config.approvals,
            extensions=config.extensions,
            tracing=parts.tracing,
            usage=TaskUsage(parts.storage.inflight, clock=parts.clock.now),
        )
    if isinstance(executor, Executor):
        return executor
    # Imported lazily: importing the executor modules of the a2a-sdk takes a third of the startup time.
    from fleetwright_agent.server.executors.sdk_executor import SdkExecutor

    return SdkExecutor(executor, clock=parts.clock, approvals=config.approvals)


def _push_service(parts: TurnDependencies, log: TaskLog, times: DeliveryTimes) -> PushService | None:
    offered = parts.config.push
    if offered is None:
        return None
    return build_pushes(
        offered,
        parts.layout,
        log.pushes,
        metrics=parts.metrics,
        clock=parts.clock,
        times=times,
        denied=parts.config.denied_ranges,
    )


def _on_event(hooks: Sequence[PublishHook]) -> PublishHook:
    """Return the callback for every event of every task."""

    def on_event(live: ActiveTask) -> None:
        for hook in hooks:
            hook(live)

    return on_event


def _task_runner(parts: TurnDependencies, worker: Executor) -> TaskRunner:
    limits = parts.config.limits
    return TaskRunner(
        worker,
        limit=limits.max_turn_seconds,
        most=limits.max_concurrent_turns,
        stall=limits.stall_seconds,
        metrics=parts.metrics,
        clock=parts.clock,
        outlived=not parts.config.ephemeral_memory,
    )


def _message_acceptor(
    parts: TurnDependencies,
    task_log: TaskLog,
    tasks: ActiveTasks,
    runs: TaskRunner,
    *,
    cards: tuple[FileWatcher[Card], FileWatcher[Card]],
    admission: Admission,
    answers: AnswerChecks,
    is_custom: bool,
) -> MessageAcceptor:
    """Return the message acceptor. A custom executor receives extensions and caller choices as the caller sent them."""
    limits = parts.config.limits
    return MessageAcceptor(
        log=task_log,
        tasks=tasks,
        runs=runs,
        cards=cards,
        admission=admission,
        clock=parts.clock,
        metrics=parts.metrics,
        most=limits.max_tasks_per_caller,
        most_waiting=limits.max_waiting_tasks_per_caller,
        answers=answers,
        extensions=frozenset() if is_custom else OF_CALLERS,
        choices={} if is_custom else parts.config.choices,
        lasting=frozenset() if is_custom else LASTING,
    )
