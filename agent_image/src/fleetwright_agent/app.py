"""The agent as two ASGI applications, assembled from parts that are all arguments.

`Application` is what a process serves: the A2A door, the operations door, and its life from start over drain to end.
Refuses: importing the loop; that happens with the first task.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

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
from fleetwright_agent.server.handler import LogRequestHandler
from fleetwright_agent.server.intake import Intake
from fleetwright_agent.server.live import LiveTasks
from fleetwright_agent.server.log import LogUnusable, TaskLog
from fleetwright_agent.server.ops import ops_app
from fleetwright_agent.server.reachability import Look, Reachability
from fleetwright_agent.server.runs import Runs
from fleetwright_agent.server.sqlite_log import SqliteTaskLog
from fleetwright_agent.server.turns import Turns, assembled
from fleetwright_agent.server.watched import Watched
from fleetwright_agent.server.work import Executor
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.turn.frames import Turn

_logger = logging.getLogger(__name__)

LOG_FILE: Final = "tasks.db"
RETENTION_SECONDS: Final = 24 * 3600
_SWEEP_SECONDS: Final = 3600
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the application is made of."""

    config: AgentConfig
    log: TaskLog
    tasks: LiveTasks
    runs: Runs
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


class Application:
    def __init__(self, parts: _Parts, *, metrics: Metrics, origins: Collection[str]) -> None:
        self._parts = parts
        self._waiting_for: str | None = "the agent is starting"
        self._background: list[asyncio.Task[None]] = []
        self.a2a = self._door(metrics, origins)
        self.ops: ASGIApp = ops_app(metrics=metrics, not_ready=self.not_ready, status=self.status)

    def _door(self, metrics: Metrics, origins: Collection[str]) -> ASGIApp:
        parts = self._parts
        handler = LogRequestHandler(parts.intake, log=parts.log, tasks=parts.tasks, runs=parts.runs)
        spoken = routes(handler, parts.config.dialects, tasks=parts.tasks, admission=self._admission)
        door: ASGIApp = Starlette(routes=[*spoken, *card_routes(parts.card)])
        door = Authentication(
            Bodies(door),
            callers=parts.callers,
            realm=parts.config.name,
            metrics=metrics,
            clock=parts.clock,
            api_keys=parts.config.accept_api_key,
        )
        return Origins(door, allowed=origins)

    async def start(self) -> None:
        """Opens the log and ends what the last process left running. A log that cannot be trusted keeps us unready."""
        try:
            await self._parts.log.open()
            await self._recover()
        except LogUnusable as error:
            self._waiting_for = str(error)
            return
        await self._parts.conversations.check()
        self._background = [
            asyncio.create_task(self._sweep()),
            asyncio.create_task(self._parts.reachability.watch()),
        ]
        self._waiting_for = None

    async def drain(self) -> None:
        """Takes no more messages, lets running tasks end for a while, ends the rest."""
        self._waiting_for = "the agent is shutting down"
        _logger.info("draining", extra={"running": len(self._parts.runs)})
        await self._parts.runs.drain(self._parts.config.drain_seconds)

    async def aclose(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._parts.turns.aclose()
        await self._parts.conversations.aclose()
        await self._parts.log.aclose()

    def not_ready(self) -> str | None:
        """Why traffic should not come here, for people; nothing when it should."""
        parts = self._parts
        stored = parts.log.problem or parts.conversations.problem
        return self._waiting_for or stored or parts.callers.read()[1] or parts.card.read()[1]

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
        interrupted = await self._parts.log.busy()
        await asyncio.gather(*(self._parts.runs.abandon(self._parts.tasks.add(stored)) for stored in interrupted))
        if interrupted:
            _logger.warning("tasks were running when the last process ended", extra={"tasks": len(interrupted)})

    async def _sweep(self) -> None:
        """Forgets old tasks now and then; where the log could not be written, tries until it can be again."""
        due = 0.0
        while True:
            with suppress(LogUnusable):
                await self._parts.runs.settle()
            if self._parts.conversations.problem:
                await self._parts.conversations.check()
            if self._parts.log.problem or self._parts.clock.monotonic() >= due:
                before = self._parts.clock.now_ns() - RETENTION_SECONDS * 1_000_000_000
                with suppress(LogUnusable):  # Readiness tells it, and the next round tries again.
                    forgotten = await self._parts.log.sweep(before)
                    due = self._parts.clock.monotonic() + _SWEEP_SECONDS
                    _logger.info("old tasks forgotten", extra={"tasks": forgotten})
            await asyncio.sleep(self._parts.retry_seconds)


def create_app(
    config: AgentConfig,
    *,
    layout: Layout,
    turn: Turn | None = None,
    executor: Executor | None = None,
    log: TaskLog | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    origins: Collection[str] = (),
    offers: Offers | None = None,
    retry_seconds: float = RETRY_SECONDS,
) -> Application:
    """Args: what is not given is the real thing; `origins` are the browser pages that may call, none by default."""
    clock = clock or Clock()
    metrics = metrics or Metrics(CollectorRegistry())
    metrics.declare(config.model.name)
    metrics.agent_info.labels(config.name, config.namespace, config.revision).set(1)
    conversations = Database(layout.memory / schema.FILE, schema.SCHEMA)
    offers = offers or Offers()
    turns = Turns((lambda: turn) if turn is not None else assembled(config, layout, metrics, conversations, offers))
    compaction = LastCompaction()
    myself = f"{config.namespace}/{config.name}"
    executor = executor or FrameExecutor(turns, myself=myself, clock=clock, compaction=compaction)
    log = log or SqliteTaskLog(layout.memory / LOG_FILE)
    tasks = LiveTasks(log, clock)
    runs = Runs(executor, limit=config.limits.max_turn_seconds, metrics=metrics, clock=clock)
    card = Watched(layout.card_file, parse_card)
    parts = _Parts(
        config=config,
        log=log,
        tasks=tasks,
        runs=runs,
        intake=Intake(log=log, tasks=tasks, runs=runs, card=card, clock=clock),
        turns=turns,
        conversations=conversations,
        callers=Watched(layout.callers_file, parse_callers),
        card=card,
        compaction=compaction,
        reachability=Reachability(config.mcp_servers),
        offers=offers,
        clock=clock,
        retry_seconds=retry_seconds,
    )
    return Application(parts, metrics=metrics, origins=origins)
