"""Assembles an agent from parts that are all arguments. Refuses: importing the loop; the first task does."""

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from fleetwright_agent.config import AgentConfig
from fleetwright_agent.layout import Layout
from fleetwright_agent.memory import schema
from fleetwright_agent.memory.database import Database
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.server.auth import Identity, MountedTokens, parse_callers
from fleetwright_agent.server.card import parse_card
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.executor import FrameExecutor, LastCompaction
from fleetwright_agent.server.heartbeat import DEAD_SECONDS, STALLED_SECONDS, Heartbeat
from fleetwright_agent.server.intake import Intake
from fleetwright_agent.server.live import LiveTasks, unheard
from fleetwright_agent.server.log import TaskLog
from fleetwright_agent.server.push.pushes import Times, build_pushes
from fleetwright_agent.server.reachability import Reachability
from fleetwright_agent.server.runs import Runs
from fleetwright_agent.server.sqlite_log import SqliteTaskLog
from fleetwright_agent.server.turns import Turns, assembled
from fleetwright_agent.server.watched import Watched
from fleetwright_agent.server.work import Executor
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.turn.frames import Turn

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor

from fleetwright_agent.application import Application
from fleetwright_agent.parts import Parts

LOG_FILE: Final = "tasks.db"
RETRY_SECONDS: Final = 5.0


def _adapted(executor: "Executor | AgentExecutor", clock: Clock) -> Executor:
    if isinstance(executor, Executor):
        return executor
    # Not before it is needed: what an executor of the SDK imports takes a third of the start.
    from fleetwright_agent.server.foreign import ForeignExecutor

    return ForeignExecutor(executor, clock=clock)


def create_app(
    config: AgentConfig,
    *,
    layout: Layout,
    turn: Turn | None = None,
    executor: "Executor | AgentExecutor | None" = None,
    log: TaskLog | None = None,
    conversations: Database | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    offers: Offers | None = None,
    retry_seconds: float = RETRY_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
    dead_seconds: float = DEAD_SECONDS,
    push_times: Times | None = None,
    identity: Identity | None = None,
) -> Application:
    """What is not given is the real thing; `executor` may be any `AgentExecutor` of the a2a-sdk, and `identity` another
    way to prove who calls.
    """
    clock = clock or Clock()
    metrics = metrics or Metrics(CollectorRegistry())
    metrics.declare(config.model.name)
    metrics.agent_info.labels(config.name, config.namespace, config.revision).set(1)
    conversations = conversations or Database(layout.memory / schema.FILE, schema.SCHEMA)
    offers = offers or Offers()
    recipe = (lambda: turn) if turn is not None else assembled(config, layout, metrics, conversations, offers)
    turns = Turns(recipe, recovers=turn is None)
    compaction = LastCompaction()
    myself = f"{config.namespace}/{config.name}"
    may_reply = executor is not None and not isinstance(executor, Executor)
    worker = (
        _adapted(executor, clock)
        if executor
        else FrameExecutor(
            turns,
            myself=myself,
            clock=clock,
            compaction=compaction,
            approval_seconds=config.approvals.expiry_seconds,
            extensions=config.extensions,
        )
    )
    log = log or SqliteTaskLog(layout.memory / LOG_FILE)
    push_times = push_times or Times()
    pushes = (
        build_pushes(config.push, layout, log.pushes, metrics=metrics, clock=clock, times=push_times)
        if config.push
        else None
    )
    tasks = LiveTasks(log, clock, told=pushes.told if pushes else unheard)
    limits = config.limits
    runs = Runs(worker, limit=limits.max_turn_seconds, stall=limits.stall_seconds, metrics=metrics, clock=clock)
    card, callers = Watched(layout.card_file, parse_card), Watched(layout.callers_file, parse_callers)
    parts = Parts(
        config=config,
        log=log,
        tasks=tasks,
        runs=runs,
        pushes=pushes,
        intake=Intake(
            log=log, tasks=tasks, runs=runs, card=card, clock=clock, metrics=metrics, most=limits.max_tasks_per_caller
        ),
        turns=turns,
        conversations=conversations,
        callers=callers,
        identity=identity or MountedTokens(callers, realm=config.name, clock=clock, api_keys=config.accept_api_key),
        card=card,
        extended=Watched(layout.extended_card_file, parse_card),
        compaction=compaction,
        reachability=Reachability(config.mcp_servers),
        offers=offers,
        clock=clock,
        retry_seconds=retry_seconds,
        may_reply=may_reply,
    )
    heartbeat = Heartbeat(metrics.loop_stalls, stalled_seconds=stalled_seconds, dead_seconds=dead_seconds)
    return Application(parts, metrics=metrics, heartbeat=heartbeat)
