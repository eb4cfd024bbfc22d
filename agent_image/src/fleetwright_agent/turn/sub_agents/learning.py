"""Learns skills from sub-agents: a task that a sub-agent completed with tools becomes a skill of the task's caller.

A search finds the skill as soon as it is learned. The caller receives it as an artifact at the end of the task. Nothing
is learned from callers that may not write memory. A storage failure never discards the answer of a turn.
"""

import logging
from collections.abc import Callable

from fleetwright_agent.config.memory import LearnedSkillMemory
from fleetwright_agent.memory.eligibility import MemoryAccess, is_remembered
from fleetwright_agent.memory.skill_drafts import draft_skill
from fleetwright_agent.protocol.frames import Frame, SkillLearned, TurnRequest
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.learned_skills import LearnedSkillStore, skill_v1
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.sub_agents.listener import FinishedTask

_log = logging.getLogger(__name__)


class SkillLearner:
    """Receives finished sub-agent tasks, and stores the skills learned from them."""

    def __init__(
        self,
        skills: LearnedSkillStore,
        policy: LearnedSkillMemory,
        *,
        access: MemoryAccess,
        redact: Callable[[str], str],
        metrics: Metrics,
    ) -> None:
        """Args: `redact` removes secrets from text that is reused in prompts."""
        self._skills = skills
        self._policy = policy
        self._access = access
        self._redact = redact
        self._metrics = metrics

    async def finished(self, task: FinishedTask, tell: Callable[[Frame], None]) -> None:  # noqa: ARG002 - `learned` reports it
        if not (task.tools and self._access.may_write(task.request) and self._may_learn_from(task.sub_agent)):
            return
        turn = task.request
        draft = draft_skill(task.sub_agent, self._redact(task.task), task.tools)
        source = Provenance(turn.owner, turn.context_id, turn.task_id)
        try:
            new = await self._skills.learn(turn.owner, draft, source, most=self._policy.max_skills_per_caller)
        except MemoryUnusable as error:
            _log.warning("a skill could not be learned: %s", error)
            return
        self._metrics.skills_learned.labels("new" if new else "again").inc()

    async def learned(self, request: TurnRequest) -> list[SkillLearned]:
        """Return the skills learned in this task. They are read from the store, so a restart loses none of them."""
        if not is_remembered(request):
            return []
        try:
            found = await self._skills.skills(request.owner, context_id=request.context_id, task_id=request.task_id)
        except MemoryUnusable as error:
            _log.warning("the learned skills of a task cannot be read: %s", error)
            return []
        return [SkillLearned(skill_v1(skill)) for skill in found]

    def _may_learn_from(self, sub_agent: str) -> bool:
        return not self._policy.sub_agents or sub_agent in self._policy.sub_agents
