"""The agent as two ASGI applications, assembled from parts that are all arguments.

`Application` is what a process serves: the A2A door, the operations door, and its life from start over drain to end.
Refuses: importing the loop; that happens with the first task.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.types import ASGIApp

from fleetwright_agent.config import AgentConfig, Callers, Layout
from fleetwright_agent.memory import schema
from fleetwright_agent.memory.database import Database
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.server.auth import Authentication, parse_callers
from fleetwright_agent.server.card import Card, card_routes, parse_card
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.dialects.dialect import SENDS, Operation
from fleetwright_agent.server.dialects.door import routes
from fleetwright_agent.server.edge import Bodies, Origins
from fleetwright_agent.server.executor import FrameExecutor, LastCompaction
from fleetwright_agent.server.extensions import spoken
from fleetwright_agent.server.handler import LogRequestHandler
from fleetwright_agent.server.heartbeat import DEAD_SECONDS, STALLED_SECONDS, Heartbeat
from fleetwright_agent.server.intake import Intake
from fleetwright_agent.server.live import LiveTasks, unheard
from fleetwright_agent.server.log import LogUnusable, TaskLog
from fleetwright_agent.server.ops import ops_app
from fleetwright_agent.server.push.pushes import Pushes, Times, build_pushes
from fleetwright_agent.server.rates import Rates
from fleetwright_agent.server.reachability import Look, Reachability
from fleetwright_agent.server.runs import Runs
from fleetwright_agent.server.sqlite_log import SqliteTaskLog
from fleetwright_agent.server.turns import Turns, assembled
from fleetwright_agent.server.waiting import Waiting
from fleetwright_agent.server.watched import Watched
from fleetwright_agent.server.work import Executor
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.turn.frames import Turn

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor

_logger = logging.getLogger(__name__)

LOG_FILE: Final = "tasks.db"
_SWEEP_SECONDS: Final = 3600
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the application is made of."""

    config: AgentConfig
    log: TaskLog
    tasks: LiveTasks
    runs: Runs
    waiting: Waiting
    pushes: Pushes | None
    intake: Intake
    turns: Turns
    conversations: Database
    callers: Watched[Callers]
    card: Watched[Card]
    compaction: LastCompaction
    reachability: Reachability
    offers: Offers
    clock: Clock
    retry_seconds: float
    may_reply: bool


class Application:
    def __init__(self, parts: _Parts, *, metrics: Metrics, heartbeat: Heartbeat) -> None:
        self._parts = parts
        self._waiting_for: str | None = "the agent is starting"
        self._leaving = False
        self._background: list[asyncio.Task[None]] = []
        self.a2a = self._door(metrics)
        self.heartbeat = heartbeat
        self.ops: ASGIApp = ops_app(
            metrics=metrics, not_ready=self.not_ready, status=self.status, heartbeat=self.heartbeat
        )

    def _door(self, metrics: Metrics) -> ASGIApp:
        parts = self._parts
        handler = LogRequestHandler(
            parts.intake,
            log=parts.log,
            tasks=parts.tasks,
            runs=parts.runs,
            pushes=parts.pushes,
            may_reply=parts.may_reply,
        )
        extensions = spoken(parts.config.extensions)
        calls = routes(handler, parts.config.dialects, tasks=parts.tasks, admission=self._admission, spoken=extensions)
        door: ASGIApp = Starlette(routes=[*calls, *card_routes(parts.card)])
        door = Bodies(door, limit=parts.config.limits.max_request_bytes)
        if per_minute := parts.config.limits.max_requests_per_minute:
            door = Rates(door, per_minute=per_minute, clock=parts.clock)
        door = Authentication(
            door,
            callers=parts.callers,
            realm=parts.config.name,
            metrics=metrics,
            clock=parts.clock,
            api_keys=parts.config.accept_api_key,
        )
        return Origins(door, allowed=parts.config.allowed_origins)

    async def start(self) -> None:
        """Opens the log and ends what the last process left running. A log that cannot be trusted keeps us unready."""
        self.heartbeat.begin()
        if await self._opened():
            await self._begin()
        else:
            self._beside(self._open_later())

    async def _opened(self) -> bool:
        try:
            await self._parts.log.open()
            if self._parts.pushes:
                await self._parts.pushes.refresh()
            await self._recover()
        except LogUnusable as error:
            self._waiting_for = str(error)
            return False
        return True

    async def _open_later(self) -> None:
        """Another process may let go of the file, the volume get room, a person mend what was damaged."""
        await asyncio.sleep(self._parts.retry_seconds)
        if await self._opened():
            await self._begin()
        else:
            self._beside(self._open_later())

    async def _begin(self) -> None:
        await self._parts.conversations.check()
        self._beside(self._sweep())
        self._beside(self._parts.reachability.watch())
        if self._parts.pushes:
            self._beside(self._parts.pushes.run())
        if not self._leaving:
            self._waiting_for = None

    def _beside(self, part: Coroutine[Any, Any, None]) -> None:
        """Runs it beside the requests, until the end."""
        task = asyncio.create_task(part)
        task.add_done_callback(self._ended)
        self._background.append(task)

    async def drain(self) -> None:
        """Takes no more messages, lets running tasks end for a while, ends the rest."""
        self._leaving, self._waiting_for = True, "the agent is shutting down"
        _logger.info("draining", extra={"running": len(self._parts.runs)})
        await self._parts.runs.drain(self._parts.config.drain_seconds)
        if self._parts.pushes:
            await self._parts.pushes.flush()

    async def aclose(self) -> None:
        self.heartbeat.end()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._parts.pushes:
            await self._parts.pushes.aclose()
        await self._parts.turns.aclose()
        await self._parts.conversations.aclose()
        await self._parts.log.aclose()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """What runs beside the requests never ends by itself: where it does, somebody has to hear of it."""
        if not task.cancelled() and (error := task.exception()):
            _logger.error("a part of the agent broke", exc_info=error)
            self._waiting_for = "a part of the agent broke; restart it, and see its log"

    def not_ready(self) -> str | None:
        """Why traffic should not come here, for people; nothing when it should."""
        parts = self._parts
        stored = parts.log.problem or parts.conversations.problem
        sealed = parts.pushes.problem if parts.pushes else None
        return self._waiting_for or stored or parts.callers.read()[1] or parts.card.read()[1] or sealed

    def status(self) -> dict[str, Any]:
        parts, reason = self._parts, self.not_ready()
        card, _ = parts.card.read()
        return {
            "name": parts.config.name,
            "namespace": parts.config.namespace,
            "revision": parts.config.revision,
            "cardDigest": card.digest if card else None,
            "runningTasks": len(parts.runs),
            "lastCompaction": parts.compaction.seen,
            "mcpServers": [self._server(look) for look in parts.reachability.report],
            **({"push": parts.pushes.report()} if parts.pushes else {}),
            "ready": reason is None,
            "reason": reason,
        }

    def _server(self, look: Look) -> dict[str, Any]:
        """What is known of its tools is known from the first turn on."""
        offer = self._parts.offers.of(look.name)
        return {**asdict(look), **(asdict(offer) if offer else {})}

    def _admission(self, operation: Operation) -> str | None:
        if self._waiting_for is not None and operation in SENDS:
            return "The agent takes no messages right now; send it again."
        return None

    async def _recover(self) -> None:
        # In the order of their acceptance, which is the order of turns within a conversation.
        interrupted = sorted(await self._parts.log.busy(), key=lambda stored: stored.n)
        await asyncio.gather(*(self._parts.runs.recover(self._parts.tasks.add(stored)) for stored in interrupted))
        if interrupted:
            _logger.warning("tasks were running when the last process ended", extra={"tasks": len(interrupted)})

    async def _sweep(self) -> None:
        """Forgets old tasks now and then; where the log could not be written, tries until it can be again."""
        due, retention = 0.0, self._parts.config.task_retention_seconds
        pause = min(_SWEEP_SECONDS, retention / 4)
        while True:
            with suppress(LogUnusable):
                await self._parts.runs.settle()
                await self._parts.waiting.expire()
            if self._parts.conversations.problem:
                await self._parts.conversations.check()
            if self._parts.log.problem or self._parts.clock.monotonic() >= due:
                before = self._parts.clock.now_ns() - retention * 1_000_000_000
                with suppress(LogUnusable):  # Readiness tells it, and the next round tries again.
                    forgotten = await self._parts.log.sweep(before)
                    await self._parts.waiting.tidy()
                    if self._parts.pushes:
                        await self._parts.pushes.refresh()
                    due = self._parts.clock.monotonic() + pause
                    _logger.info("old tasks forgotten", extra={"tasks": forgotten})
            await asyncio.sleep(self._parts.retry_seconds)


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
) -> Application:
    """What is not given is the real thing; `executor` may be any `AgentExecutor` of the a2a-sdk."""
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
    card = Watched(layout.card_file, parse_card)
    parts = _Parts(
        config=config,
        log=log,
        tasks=tasks,
        runs=runs,
        waiting=Waiting(log=log, tasks=tasks, runs=runs, conversations=conversations, clock=clock),
        pushes=pushes,
        intake=Intake(log=log, tasks=tasks, runs=runs, card=card, clock=clock, metrics=metrics),
        turns=turns,
        conversations=conversations,
        callers=Watched(layout.callers_file, parse_callers),
        card=card,
        compaction=compaction,
        reachability=Reachability(config.mcp_servers),
        offers=offers,
        clock=clock,
        retry_seconds=retry_seconds,
        may_reply=may_reply,
    )
    heartbeat = Heartbeat(metrics.loop_stalls, stalled_seconds=stalled_seconds, dead_seconds=dead_seconds)
    return Application(parts, metrics=metrics, heartbeat=heartbeat)
