"""The outcomes of the agent's last tasks, by the skill that the caller named, for the status page.

Other agents and people choose between agents by these figures. A task that its caller cancelled does not count. The
figures survive a restart. A killed process loses those since its last write, which happens at most once a minute.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from a2a.types.a2a_pb2 import Artifact, Message, Task, TaskState

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extension_codec import read
from fleetwright_a2a.extensions import COST, SKILL_HINT
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.usage import UsageStore

TASKS_PER_SKILL: Final = 200
"""The number of the newest tasks of each skill that count."""
MOST_SKILLS: Final = 32
_STORE_SECONDS: Final = 60
_MOST_DOLLARS: Final = 1_000_000
_COUNTED: Final = {TaskState.TASK_STATE_COMPLETED: True, TaskState.TASK_STATE_FAILED: False}
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    succeeded: bool
    usd: Decimal | None
    """The cost of the task, or None if it has no price."""


class TaskOutcomes:
    def __init__(self, usage: UsageStore, clock: Clock, *, skills: Callable[[], Collection[str]]) -> None:
        """Args: `skills` returns the ids of the skills of the card. Other names count as no skill."""
        self._usage = usage
        self._clock = clock
        self._skills = skills
        self._outcomes: dict[str, deque[TaskOutcome]] = {}
        self._reports: dict[str, dict[str, Any]] = {}
        self._stored_at = clock.now()
        self._is_changed = False
        self.report: list[dict[str, Any]] = []
        """The figures of each skill. The status page is served by another thread, so this list is only replaced."""

    async def load(self) -> None:
        """Read the outcomes that an earlier process has stored. Tasks that have ended meanwhile count as newer."""
        try:
            stored = await self._usage.task_outcomes() or {}
        except MemoryUnusable as error:
            _logger.error("the outcomes of earlier tasks cannot be read: %s", error)
            return
        newer = self._outcomes
        self._outcomes = {}
        for skill, outcomes in stored.items():
            for succeeded, usd in outcomes:
                self._add(skill, TaskOutcome(succeeded, _amount(usd)))
        for skill, added in newer.items():
            for outcome in added:
                self._add(skill, outcome)
        self._show(self._outcomes)

    def on_event(self, live: ActiveTask) -> None:
        """Count the task if this event was its end."""
        if live.busy or live.state not in _COUNTED:
            return
        task = live.task
        skill = self._skill_of(task)
        self._add(skill, TaskOutcome(_COUNTED[live.state], cost_of(task)))
        self._show([skill])
        self._is_changed = True
        if self._clock.now() - self._stored_at >= _STORE_SECONDS:
            self.store()

    def store(self) -> None:
        """Queue the outcomes for storage, if they have changed, without waiting for the write."""
        if not self._is_changed:
            return
        self._stored_at, self._is_changed = self._clock.now(), False
        body = {
            skill: [[each.succeeded, None if each.usd is None else str(each.usd)] for each in outcomes]
            for skill, outcomes in self._outcomes.items()
        }
        try:
            self._usage.put_task_outcomes(body)
        except MemoryUnusable as error:
            # The end of a task must not fail because of a statistic.
            _logger.error("the outcomes of tasks cannot be stored: %s", error)

    def _skill_of(self, task: Task) -> str:
        """Return the skill that the first message names, or an empty text."""
        first = task.history[0] if task.history else Message()
        hint = first.metadata.fields[SKILL_HINT].string_value
        has_room = hint in self._outcomes or len(self._outcomes) < MOST_SKILLS
        return hint if has_room and hint in self._skills() else ""

    def _add(self, skill: str, outcome: TaskOutcome) -> None:
        self._outcomes.setdefault(skill, deque(maxlen=TASKS_PER_SKILL)).append(outcome)

    def _show(self, skills: Iterable[str]) -> None:
        for skill in skills:
            self._reports[skill] = _report(skill, self._outcomes[skill])
        self.report = [self._reports[skill] for skill in sorted(self._reports)]


def cost_of(task: Task) -> Decimal | None:
    """Return the cost that the agent has attached to a task, in US dollars; None if it is not known."""
    sources: list[Message | Artifact] = [*task.artifacts, task.status.message]
    found = next((cost for source in reversed(sources) if (cost := read(source, COST)) is not None), {})
    if "costUsd" in found:
        return _amount(found["costUsd"])
    return None if found.get("modelCalls") else Decimal(0)


def _amount(value: Any) -> Decimal | None:
    """Return the amount, or None for anything else. An executor of one's own code may have attached any value."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount <= _MOST_DOLLARS else None


def _report(skill: str, outcomes: Collection[TaskOutcome]) -> dict[str, Any]:
    costs = [outcome.usd for outcome in outcomes if outcome.usd is not None]
    return {
        **({"skill": skill} if skill else {}),
        "tasks": len(outcomes),
        "succeeded": sum(outcome.succeeded for outcome in outcomes),
        **({"costUsd": f"{sum(costs, Decimal(0)):.6f}"} if costs else {}),
    }
