"""The running agent: the A2A app, the operations app, and the lifecycle from start through drain to close."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp

from fleetwright_a2a.dialects.dialect import SENDS, Operation
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.enforcement import AuditMode
from fleetwright_agent.process.asgi import asgi_app
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.process.maintenance import Maintenance
from fleetwright_agent.server.ops.event_loop_watchdog import stall_sentence
from fleetwright_agent.server.ops.reachability import ServerReachability
from fleetwright_agent.server.ops.routes import ops_app
from fleetwright_agent.storage.errors import TaskLogUnavailable

_logger = logging.getLogger(__name__)
_STARTING: Final = "the agent is starting"
_HOLDER_SECONDS: Final = 0.25
"""The pause between two attempts to take the memory volume from the process that still uses it."""
_LATE_SECONDS: Final = 2
"""The time for runs that have begun after the drain. The grace period of the pod has no more left."""


class Application:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._parts = dependencies.turn
        self._runs = dependencies.task_runner
        self._pushes = dependencies.push_service
        self._started = self._parts.clock.monotonic()
        self._waiting_for: str | None = _STARTING
        self._memory_holder = ""
        """The process that uses the memory volume, while this one waits for it."""
        self._leaving = False
        self._background: set[asyncio.Task[None]] = set()
        self._prompting: asyncio.Task[None] | None = None
        self._maintenance = Maintenance(dependencies)
        self.a2a = asgi_app(dependencies, admission=self._admission)
        self.watchdog = dependencies.watchdog
        self.ops: ASGIApp = ops_app(
            metrics=dependencies.counters.snapshot,
            not_ready=self.not_ready,
            status=self.status,
            scraped=dependencies.activity.note_scrape,
            heartbeat=self.watchdog,
            is_starting=lambda: self._waiting_for == _STARTING or bool(self._memory_holder),
            agent_uid=lambda: dependencies.agent_uid.read()[0],
        )

    async def build(self) -> None:
        """Build the `Turn` object, which a serving agent builds when the first task needs it.

        The `probe` command calls this method, so that a failure of the build also fails the preflight.
        """
        await self._dependencies.turn_loader.get()

    async def start(self) -> None:
        """Open the memory and recover interrupted tasks.

        While another process holds the memory volume, or the task log is unusable, the agent is not ready.
        """
        self.watchdog.begin()
        self._tell_assumed()
        if self._parts.config.preload:
            self._beside(self._dependencies.turn_loader.import_modules())
        if await self._opened():
            await self._begin()
        else:
            self._beside(self._open_later())

    def _tell_assumed(self) -> None:
        for field, model in self._parts.config.declared_models:
            if model.context_window_assumed:
                _logger.warning(
                    "the context window of the model is not known; set %s.contextWindow",
                    field,
                    extra={"model": model.name, "assumed": model.context_window},
                )

    async def _opened(self) -> bool:
        if not await self._has_memory():
            return False
        try:
            await self._dependencies.task_log.open()
            self._dependencies.counters.resume()
            if self._pushes:
                await self._pushes.refresh()
            await self._maintenance.recover()
        except TaskLogUnavailable as error:
            self._waiting_for = str(error)
            return False
        return True

    async def _has_memory(self) -> bool:
        """Take the lock of the memory volume if it is free. Nothing else may touch the volume before."""
        try:
            holder = await asyncio.to_thread(self._dependencies.memory_lock.take_lock)
        except OSError as error:
            self._memory_holder = ""
            self._waiting_for = f"the memory volume cannot be locked: {error.strerror or error}"
            return False
        if holder and holder != self._memory_holder:
            _logger.warning("waiting for the memory volume", extra={"holder": holder})
            self._waiting_for = f"waiting for the memory volume, which {holder} still uses"
        self._memory_holder = holder
        return not holder

    async def _open_later(self) -> None:
        """Retry: another process may release the volume, space may become free, or a file may be repaired."""
        await asyncio.sleep(_HOLDER_SECONDS if self._memory_holder else self._dependencies.retry_seconds)
        if self._leaving:
            return  # Otherwise a process that ends would take the memory and resume tasks.
        if await self._opened():
            await self._begin()
        else:
            self._beside(self._open_later())

    async def _begin(self) -> None:
        if not self._leaving:
            self._waiting_for = _STARTING  # Replaces the reason for which the log could not be opened.
        await self._parts.storage.file.check()
        await self._dependencies.outcomes.load()
        self._parts.plugins.begin()
        self._beside(self._maintenance.run(self.not_ready))
        self._beside(self._dependencies.reachability.watch())
        if self._pushes:
            self._beside(self._pushes.run())
        if len(self._runs):
            # Wait in the background, so that the operations app can answer in the meantime.
            self._beside(self._become_ready())
        else:
            self._ready()

    async def _become_ready(self) -> None:
        """Wait until every recovered task has resumed or ended."""
        await self._maintenance.decided()
        self._ready()

    def _ready(self) -> None:
        if self._waiting_for == _STARTING:  # The agent is neither shutting down nor broken.
            self._waiting_for = None
            self._dependencies.activity.note_ready()
            if self._dependencies.prompt_scheduler.has_prompts:
                self._prompting = self._beside(self._dependencies.prompt_scheduler.run(self.not_ready))
        if self._parts.config.preload and not self._leaving:
            self._beside(self._preload())

    async def _preload(self) -> None:
        """Build the turn before the first task needs it."""
        try:
            await self._dependencies.turn_loader.get()
        except Exception:
            _logger.exception("the turn cannot be loaded; the next task tries again")

    def _beside(self, part: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine in the background until the agent closes."""
        task = asyncio.create_task(part)
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self) -> None:
        """Stop accepting messages, and wait up to `drain_seconds` for running tasks.

        After this time, each remaining task ends or is left for the next process to resume.
        """
        self._leaving, self._waiting_for = True, "the agent is shutting down"
        if self._parts.config.ephemeral_memory:
            # The next pod may already run, and no lock of a shared volume keeps it from exposing counters.
            self._dependencies.counters.hide()
        if not self._dependencies.memory_lock.is_held:
            return  # This process has not opened the memory, and has no task.
        _logger.info("draining", extra={"running": len(self._runs)})
        if self._prompting is not None:
            self._prompting.cancel()
            await asyncio.wait({self._prompting})
        self._dependencies.open_approvals.close()
        # The runs that begin with the denials of expired approvals must be among those that the drain stops.
        await self._maintenance.settle_expiry()
        await self._runs.drain(self._parts.config.drain_seconds)
        self._dependencies.active_tasks.let_go()
        self._dependencies.outcomes.store()
        if self._pushes:
            await self._pushes.flush()

    async def aclose(self) -> None:
        self.watchdog.end()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        parts = self._parts
        in_order: list[Callable[[], Awaitable[None]]] = [
            self._drain_late_runs,
            *([self._pushes.aclose] if self._pushes else []),
            self._dependencies.turn_loader.aclose,
            parts.plugins.close,
            parts.tracing.aclose,
            parts.storage.facts.aclose,
            parts.storage.skills.aclose,
            parts.storage.file.aclose,
            parts.cost_accounting.aclose,
            parts.audit_trail.aclose,
            partial(asyncio.to_thread, self._dependencies.counters.save),
            self._dependencies.task_log.aclose,
            # Another process uses the volume after this.
            self._release_memory,
        ]
        # If closing one part fails, the other parts are closed before the error is raised.
        async with AsyncExitStack() as ending:
            for close in reversed(in_order):
                ending.push_async_callback(close)

    async def _release_memory(self) -> None:
        self._dependencies.memory_lock.release_lock()

    async def _drain_late_runs(self) -> None:
        """Stop the runs that have begun after the drain, because the acceptance of their messages took so long.

        A run that still works while its turn closes would fail.
        """
        if len(self._runs):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LATE_SECONDS):
                    await self._runs.drain(0)
            self._dependencies.outcomes.store()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Log the failure of a background task, and make the agent unready."""
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _logger.error("a background task failed", exc_info=error)
            self._waiting_for = "a background task failed; see the log, then restart the agent"

    def not_ready(self) -> str | None:
        """Return the reason, as a sentence, why the agent should get no traffic; `None` if it is ready."""
        stored = self._dependencies.task_log.problem or self._parts.storage.file.problem or self._unaudited()
        mounted = self._dependencies.callers.read()[1] or self._dependencies.card.read()[1]
        sealed = self._pushes.problem if self._pushes else None
        return self._waiting_for or stored or mounted or sealed

    def _unaudited(self) -> str | None:
        """Return the reason why the audit trail is unusable, if the audit mode requires a line for every call."""
        return self._parts.audit_trail.problem if self._parts.config.audit.mode is AuditMode.REQUIRED else None

    def status(self) -> dict[str, Any]:
        stalled = self.watchdog.stalled_seconds()
        config, reason = self._parts.config, self.not_ready() if stalled is None else stall_sentence(stalled)
        card, _ = self._dependencies.card.read()
        damaged = self._dependencies.task_log.damaged
        return {
            "name": config.name,
            "namespace": config.namespace,
            "revision": config.revision,
            "cardDigest": card.digest if card else None,
            **({} if stalled is None else {"eventLoop": {"stalledSeconds": int(stalled)}}),
            "uptimeSeconds": int(self._parts.clock.monotonic() - self._started),
            **({"waitsForMemory": {"holder": self._memory_holder}} if self._memory_holder else {}),
            "runningTasks": len(self._runs),
            "currentTask": self._runs.current_task,
            "activity": self._activity(),
            **({"damagedTasks": damaged} if damaged else {}),
            "modelCalls": self._parts.audit_trail.redact(self._parts.metrics.model_health.report()),
            "spentUsd": self._parts.metrics.spent_usd(),
            "outcomes": self._dependencies.outcomes.report,
            "lastCompaction": self._dependencies.last_compaction.seen,
            **_audit(self._parts.audit_trail),
            **({"budgets": self._parts.cost_accounting.report()} if config.budgets else {}),
            "mcpServers": [self._server(look) for look in self._dependencies.reachability.report],
            **({"plugins": self._parts.plugins.report()} if config.plugins else {}),
            **({"push": self._pushes.report()} if self._pushes else {}),
            "ready": reason is None,
            "reason": reason,
        }

    def _activity(self) -> dict[str, Any]:
        waiting, pushes = self._runs.waiting, self._pushes
        return self._dependencies.activity.report(
            running=max(0, len(self._runs) - waiting),
            waiting=waiting,
            streams=self._dependencies.request_handler.open_streams,
            pushes=pushes.undelivered if pushes else 0,
            wakes_ns=(
                pushes.next_due_ns if pushes else None,
                self._maintenance.retention_schedule.next_ns(),
                self._dependencies.prompt_scheduler.next_wake_ns(),
            ),
        )

    def _server(self, look: ServerReachability) -> dict[str, Any]:
        """Return the state of an MCP server; it includes the server's tools once a turn has listed them."""
        offer = self._parts.tool_cache.of(look.name)
        return {**asdict(look), **(asdict(offer) if offer else {})}

    def _admission(self, operation: Operation) -> str | None:
        if self._waiting_for is not None and operation in SENDS:
            return "The agent does not accept messages at the moment. Send it again."
        return None


def _audit(trail: AuditTrail) -> dict[str, Any]:
    """Return the line count and the last hash of the audit trail, so that a truncation can be detected.

    The result is empty while the trail has no lines.
    """
    head, resumed = trail.head, trail.resumed
    if head is None or resumed is None:
        return {}
    began = {"lines": resumed.lines, "hash": resumed.hash}
    return {"audit": {"lines": head.lines, "hash": head.hash, "process": trail.process, "resumed": began}}
