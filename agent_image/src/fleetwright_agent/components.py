"""Builds the parts of the application from the agent's configuration."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetwright_a2a.card import Card
from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.factory import audit_trail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.server.admin.access import AdministratorAccess, watch_administrators
from fleetwright_agent.server.admin.costs import CostAdministration
from fleetwright_agent.server.admin.delegations import DelegationAdministration
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.export import MemoryExport
from fleetwright_agent.server.admin.routes import Admin
from fleetwright_agent.server.admin.skills import SkillAdministration
from fleetwright_agent.server.admin.tasks import TaskAdministration
from fleetwright_agent.server.executors.port import Executor
from fleetwright_agent.server.executors.turn_executor import TurnExecutor
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.extensions import LASTING, OF_CALLERS, spoken
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.prompts.prompt_scheduler import PromptScheduler
from fleetwright_agent.server.push.service import DeliveryTimes, PushService, build_pushes
from fleetwright_agent.server.retention import Retention
from fleetwright_agent.server.tasks.active_task import ActiveTask, PublishHook
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.answer_checks import AnswerChecks
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.question_release import QuestionRelease
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskDelegations, TaskLog
from fleetwright_agent.storage.volume import MemoryVolume
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD, Tracing
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.cost.task_usage import TaskUsage
from fleetwright_agent.turn.dependencies import TurnDependencies

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor


def build_turn_dependencies(
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


def build_admin(
    parts: TurnDependencies,
    task_log: TaskLog,
    erasure: Erasure,
    export: MemoryExport,
    curator: Curator,
    *,
    names_file: Path,
) -> Admin:
    """Return the endpoints of administrators. Args: `names_file` is the mounted file with their names."""
    access = AdministratorAccess(watch_administrators(names_file, configured=parts.config.administrators))
    skills = SkillAdministration(
        access,
        parts.storage.skills,
        curator=curator,
        enabled=parts.config.memory.skills.enabled,
        audit_trail=parts.audit_trail,
    )
    delegations = DelegationAdministration(access, parts.storage.peer_calls, audit_trail=parts.audit_trail)
    tasks = TaskAdministration(access, task_log, audit_trail=parts.audit_trail)
    costs = CostAdministration(access, parts.storage.usage)
    more = [*costs.routes, *skills.routes, *delegations.routes, *tasks.routes]
    return Admin(access, erasure=erasure, export=export, audit_trail=parts.audit_trail, more=more)


def build_retention(parts: TurnDependencies, task_log: TaskLog, admission: Admission) -> Retention:
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


def build_prompt_scheduler(
    parts: TurnDependencies,
    task_log: TaskLog,
    runs: TaskRunner,
    acceptor: MessageAcceptor,
    activity: TaskActivity,
    *,
    seconds: float,
    environment: Mapping[str, str],
) -> PromptScheduler:
    return PromptScheduler(
        parts.config,
        acceptor=acceptor,
        log=task_log,
        runs=runs,
        activity=activity,
        accounting=parts.cost_accounting,
        clock=parts.clock,
        seconds=seconds,
        environment=environment,
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


def declare_metrics(config: AgentConfig, metrics: Metrics) -> Metrics:
    metrics.declare(
        [model.name for model in config.models],
        lines=config.lines,
        periods=[budget.period.value for budget in config.budgets],
    )
    metrics.agent_info.labels(config.name, config.namespace, config.revision).set(1)
    return metrics


def build_executor(
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


def build_push_service(parts: TurnDependencies, log: TaskLog, times: DeliveryTimes) -> PushService | None:
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


def skill_ids(cards: Iterable[FileWatcher[Card]]) -> frozenset[str]:
    """Return the ids of the skills that any of the cards shows."""
    read = [card for card, _ in (each.recent() for each in cards) if card is not None]
    return frozenset[str]().union(*(card.skill_ids for card in read))


def call_each(hooks: Sequence[PublishHook]) -> PublishHook:
    """Return the callback for every event of every task."""

    def on_event(live: ActiveTask) -> None:
        for hook in hooks:
            hook(live)

    return on_event


def build_task_runner(parts: TurnDependencies, worker: Executor, questions: QuestionRelease) -> TaskRunner:
    limits = parts.config.limits
    return TaskRunner(
        worker,
        limit=limits.max_turn_seconds,
        most=limits.max_concurrent_turns,
        high_callers=limits.high_priority_callers,
        stall=limits.stall_seconds,
        metrics=parts.metrics,
        clock=parts.clock,
        outlived=not parts.config.ephemeral_memory,
        release=questions.release,
    )


def build_message_acceptor(
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
        supported=spoken(parts.config, foreign=is_custom),
        choices={} if is_custom else parts.config.choices,
        lasting=frozenset() if is_custom else LASTING,
    )
