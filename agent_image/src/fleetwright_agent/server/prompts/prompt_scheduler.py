"""Sends the agent its own prompts: the initial prompt once, and the idle prompt whenever the agent has been idle.

The prompts are messages of the agent itself. The message acceptor accepts them as it accepts the message of any other
caller, so their tasks are durable, wait in the queue, and have a cost. The initial prompt is sent once in the life of
the agent's memory. The task log keeps this fact in the transaction that accepts the message.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import ServiceUnavailable
from fleetwright_a2a.extensions import PRIORITY, TRIGGER
from fleetwright_a2a.task_events import INTERRUPTED, state_word
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.prompts import IdlePrompt
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.prompts.idle import IdleState, is_idle_prompt_due
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.priorities import Priority
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable
from fleetwright_agent.storage.tasks.records import TaskQuery
from fleetwright_agent.storage.tasks.task_log import TaskQueries
from fleetwright_agent.turn.cost.accounting import CostAccounting

_logger = logging.getLogger(__name__)
PREFLIGHT: Final = "FLEETWRIGHT_PREFLIGHT"
"""The environment variable of a preflight pod. A program that serves there instead of checking sends no prompts."""
_WAKE_SECONDS: Final = 15 * 60
"""The time after which a sleeping agent wakes to send an initial prompt that a budget or a full memory has delayed."""
INITIAL: Final = "initial-prompt"
IDLE: Final = "idle-prompt"
"""Each of these words is the trigger of a prompt's messages, and the context of its tasks."""


class PromptScheduler:
    def __init__(
        self,
        config: AgentConfig,
        *,
        acceptor: MessageAcceptor,
        log: TaskQueries,
        runs: TaskRunner,
        activity: TaskActivity,
        accounting: CostAccounting,
        clock: Clock,
        seconds: float,
        environment: Mapping[str, str],
    ) -> None:
        """
        Args:
            seconds: The time between two checks.
            environment: The environment variables of the process.
        """
        self._is_preflight = PREFLIGHT in environment
        self._owner = config.as_caller
        self._idle = config.idle_prompt
        self._initial = config.initial_prompt
        """None as soon as the prompt is known to be sent."""
        self._acceptor = acceptor
        self._log = log
        self._runs = runs
        self._activity = activity
        self._accounting = accounting
        self._clock = clock
        self._seconds = seconds
        self._refusal = ""

    @property
    def has_prompts(self) -> bool:
        return not self._is_preflight and (self._initial is not None or self._idle is not None)

    def next_wake_ns(self) -> int | None:
        """Return when a sleeping agent must wake for its initial prompt; None if the prompt is sent."""
        if self._is_preflight or self._initial is None:
            return None
        return self._clock.now_ns() + _WAKE_SECONDS * 1_000_000_000

    async def run(self, not_ready: Callable[[], str | None]) -> None:
        """Send prompts that are due, until the task is cancelled.

        Args: `not_ready` returns the reason why the agent should get no messages; None if it is ready.
        """
        while True:
            if not_ready() is None:
                await self.check()
            await asyncio.sleep(self._seconds)

    async def check(self) -> None:
        """Send the prompt that is due, if there is one. Log errors; the next check tries again."""
        try:
            await self._send_due()
        except (ServiceUnavailable, TaskLogUnavailable, MemoryUnusable) as error:
            if str(error) != self._refusal:
                _logger.info("the agent cannot send its own prompt yet", extra={"reason": str(error)})
            self._refusal = str(error)
        except Exception:
            _logger.exception("the agent failed to send its own prompt; the next check tries again")

    async def _send_due(self) -> None:
        if self._initial is not None:
            await self._send_initial(self._initial)
        elif self._idle is not None:
            await self._send_idle(self._idle)

    async def _send_initial(self, text: str) -> None:
        if not await self._log.has_accepted(INITIAL):
            if await self._is_over_budget():
                return
            await self._send(INITIAL, text, dedup_key=INITIAL)
        self._initial = None

    async def _send_idle(self, prompt: IdlePrompt) -> None:
        state = IdleState(
            tasks=len(self._runs),
            quiet_seconds=self._activity.quiet_seconds(),
            is_over_budget=await self._is_over_budget(),
        )
        if is_idle_prompt_due(state, every_seconds=prompt.every_seconds) and not await self._waits():
            await self._send(IDLE, prompt.text)

    async def _is_over_budget(self) -> bool:
        """Raises: MemoryUnusable."""
        await self._accounting.look()
        return self._accounting.refuses_tasks()

    async def _waits(self) -> bool:
        """Return whether the task of an earlier idle prompt waits for a person. Raises: TaskLogUnavailable."""
        queries = [TaskQuery(self._owner, size=1, context_id=IDLE, state=state) for state in sorted(INTERRUPTED)]
        return any([(await self._log.page(query)).total for query in queries])

    async def _send(self, trigger: str, text: str, *, dedup_key: str | None = None) -> None:
        message = Message(message_id=str(uuid4()), context_id=trigger, role=Role.ROLE_USER, parts=[Part(text=text)])
        message.metadata.update({TRIGGER: trigger, PRIORITY: Priority.LOW.name.lower()})
        live, start = await self._acceptor.take(self._owner, SendMessageRequest(message=message), dedup_key=dedup_key)
        about = {"task": live.task_id, "context": live.context_id, "state": state_word(live.state)}
        _logger.info("the agent begins a task by itself", extra={**about, TRIGGER: trigger})
        self._refusal = ""
        start()
