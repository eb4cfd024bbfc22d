"""Builds the application. The model loop is imported when the first task runs, not by this module."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from fleetwright_a2a.authentication import Identity
from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_a2a.card import Card, parse_card
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import RPC_PATH
from fleetwright_agent.audit.factory import redactor
from fleetwright_agent.components import (
    build_admin,
    build_executor,
    build_message_acceptor,
    build_prompt_scheduler,
    build_push_service,
    build_retention,
    build_task_runner,
    build_turn_dependencies,
    call_each,
    declare_metrics,
    skill_ids,
)
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.gateway import parse_agent_uid
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.plugins.loading import Plugins, installed_entry_points
from fleetwright_agent.process.application import Application
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.protocol.turn import Turn
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.export import MemoryExport
from fleetwright_agent.server.approvals.answer_delivery import AnswerDelivery
from fleetwright_agent.server.approvals.decision_acceptor import DecisionAcceptor
from fleetwright_agent.server.approvals.expiry import ApprovalExpiry
from fleetwright_agent.server.approvals.open_approvals import OpenApprovals
from fleetwright_agent.server.auth import MountedTokens, parse_callers, parse_operators
from fleetwright_agent.server.executors.port import Executor
from fleetwright_agent.server.executors.turn_loader import TurnLoader, import_turn, load_turn
from fleetwright_agent.server.gateway_tokens import GatewayTokens, parse_gateway_keys
from fleetwright_agent.server.ops.event_loop_watchdog import DEAD_SECONDS, STALLED_SECONDS, EventLoopWatchdog
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.ops.task_outcomes import TaskOutcomes
from fleetwright_agent.server.push.service import DeliveryTimes
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.answer_checks import AnswerChecks
from fleetwright_agent.server.tasks.interrupt_expiry import InterruptExpiry
from fleetwright_agent.server.tasks.listing import TaskListing
from fleetwright_agent.server.tasks.question_release import QuestionRelease
from fleetwright_agent.server.tasks.request_handler import TaskRequestHandler
from fleetwright_agent.storage.factory import agent_storage, agent_task_log
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.telemetry.counter_file import CounterFile
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.approval_policy import may_approve
from fleetwright_agent.tools.mcp.tool_cache import ToolCache

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor

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
    environment: Mapping[str, str] = os.environ,
) -> Application:
    """Build the application. Parts that are not given are created from the configuration.

    `executor` may be any `AgentExecutor` of the a2a-sdk. `identity` replaces the authentication by mounted tokens.
    """
    clock, metrics = clock or Clock(), declare_metrics(config, metrics or Metrics(CollectorRegistry()))
    lock = MemoryLock(layout.memory, name=socket.gethostname())
    storage = storage or agent_storage(layout, clock, lock)
    plugins = Plugins(config.plugins, metrics, installed=installed_plugins or installed_entry_points)
    task_log = log or agent_task_log(layout, clock, lock, lost=metrics.tasks_lost.inc)
    parts = build_turn_dependencies(
        config, layout, clock, metrics, storage, task_log, tool_cache or ToolCache(), plugins
    )
    turns = (
        TurnLoader(load_turn(parts), recovers=True, imports=import_turn) if turn is None else TurnLoader(lambda: turn)
    )
    last_compaction = LastCompaction()
    pushes = build_push_service(parts, task_log, push_times or DeliveryTimes())
    activity = TaskActivity(clock, own=config.as_caller)
    redact = redactor(layout)
    approvals = OpenApprovals(task_log, redact=redact)
    card, extended_card = (FileWatcher(path, parse_card) for path in (layout.card_file, layout.extended_card_file))
    outcomes = TaskOutcomes(storage.usage, clock, skills=partial(skill_ids, (card, extended_card)))
    hooks = (activity.on_event, outcomes.on_event, approvals.on_event, *([pushes.on_event] if pushes else []))
    tasks = ActiveTasks(task_log, clock, on_event=call_each(hooks), on_forget=approvals.forget)
    worker = build_executor(parts, executor, turns, last_compaction)
    questions = QuestionRelease(turns, storage.questions)
    runs = build_task_runner(parts, worker, questions)
    callers, admission = FileWatcher(layout.callers_file, parse_callers), Admission()
    is_custom = executor is not None and not isinstance(executor, Executor)
    # The public card may omit skills that authenticated callers may use.
    cards = (extended_card, card)
    answers = AnswerChecks(may_approve=partial(may_approve, config), edits=worker)
    acceptor = build_message_acceptor(
        parts, task_log, tasks, runs, cards=cards, admission=admission, answers=answers, is_custom=is_custom
    )
    delivery = AnswerDelivery(runs, acceptor, admission=admission, clock=clock, metrics=metrics)
    titles = storage.conversations if config.forks and not is_custom else None
    erasure = Erasure(task_log, storage, parts.audit_trail, tasks=tasks, runs=runs, admission=admission, clock=clock)
    export = MemoryExport(task_log, storage, parts.audit_trail)
    curator = Curator(config, storage.skills, tell=parts.audit_trail.note, metrics=metrics, clock=clock)
    return Application(
        Dependencies(
            turn=parts,
            turn_loader=turns,
            last_compaction=last_compaction,
            task_log=task_log,
            activity=activity,
            outcomes=outcomes,
            active_tasks=tasks,
            task_runner=runs,
            message_acceptor=acceptor,
            request_handler=TaskRequestHandler(
                acceptor,
                listing=TaskListing(task_log, tasks, titles=titles),
                tasks=tasks,
                runs=runs,
                activity=activity,
                pushes=pushes,
                extended=extended_card,
                may_reply=is_custom,
                most_streams=config.limits.max_streams_per_caller,
            ),
            push_service=pushes,
            prompt_scheduler=build_prompt_scheduler(
                parts, task_log, runs, acceptor, activity, seconds=retry_seconds, environment=environment
            ),
            callers=callers,
            identity=identity
            or MountedTokens(
                callers,
                realm=config.name,
                clock=clock,
                gateway=GatewayTokens(
                    FileWatcher(layout.gateway_file, parse_gateway_keys),
                    addresses=lambda: _addresses(config, card),
                    clock=clock,
                ),
                operators=FileWatcher(layout.operator_file, parse_operators),
                api_keys=config.accept_api_key,
            ),
            card=card,
            agent_uid=FileWatcher(layout.gateway_file, parse_agent_uid),
            admin=build_admin(parts, task_log, erasure, export, curator, names_file=layout.administrators_file),
            open_approvals=approvals,
            decision_acceptor=DecisionAcceptor(task_log, tasks, delivery, answers=answers, redact=redact, clock=clock),
            erasure=erasure,
            interrupt_expiry=InterruptExpiry(
                log=task_log,
                tasks=tasks,
                expire=ApprovalExpiry(delivery, release=questions.release, clock=clock).expire,
                turns=turns,
                storage=storage,
                activity=activity,
                clock=clock,
            ),
            retention=build_retention(parts, task_log, admission),
            curator=curator,
            reachability=Reachability(config.mcp_servers, denied=config.denied_ranges),
            watchdog=EventLoopWatchdog(metrics.loop_stalls, stalled_seconds=stalled_seconds, dead_seconds=dead_seconds),
            log_level=LogLevel(layout.log_level_file),
            counters=CounterFile(layout.memory, metrics),
            memory_lock=lock,
            retry_seconds=retry_seconds,
            keepalive_seconds=keepalive_seconds,
            has_custom_executor=is_custom,
        )
    )


def _addresses(config: AgentConfig, card: FileWatcher[Card]) -> frozenset[str]:
    """Return the addresses by which callers may know the agent: those of its card, and that of its Service.

    They do not end with the path of A2A.
    """
    current, _ = card.read()
    listed = current.addresses if current else frozenset[str]()
    return frozenset({config.url, *(url.rstrip("/").removesuffix(RPC_PATH) for url in listed)})
