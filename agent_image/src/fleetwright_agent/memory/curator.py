"""Curates all learned skills: prunes weak ones, merges similar ones, and records each run in the audit trail.

`memory/curation.py` decides which skills change. The changes of one owner are applied in one transaction. Mounted
skills are not changed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.memory.curation import plan_curation
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.learned_skills import CurationResult, LearnedSkill, LearnedSkillStore, Plan
from fleetwright_agent.telemetry.metrics import Metrics

_logger = logging.getLogger(__name__)
EVENT: Final = "skills_curated"
Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Appends a line to the audit trail, if there is one."""


class Curator:
    def __init__(
        self, config: AgentConfig, skills: LearnedSkillStore, *, tell: Tell, metrics: Metrics, clock: Clock
    ) -> None:
        self._memory = config.memory.skills
        self._pinned = {skill.name: skill.description for skill in config.skills}
        self._skills = skills
        self._tell = tell
        self._metrics = metrics
        self._clock = clock
        self._due = 0.0

    async def look(self) -> None:
        """Curate if the interval since the last attempt has passed; the first call always curates.

        Raises: MemoryUnusable, OSError.
        """
        if self._memory.enabled and self._clock.monotonic() >= self._due:
            # After a failure, wait for the next interval rather than for the next maintenance round.
            self._due = self._clock.monotonic() + self._memory.curation.interval_seconds
            await self.curate(by="schedule")

    async def curate(self, *, by: str, dry_run: bool = False) -> list[CurationResult]:
        """Curate the skills of all owners and return the results; a dry run changes nothing and writes no audit line.

        Args: `by` names the trigger in the audit trail.

        Raises:
            MemoryUnusable, OSError: The skills of an owner cannot be used. The skills of the other owners are curated.
        """
        found: list[CurationResult] = []
        failure: MemoryUnusable | None = None
        for key in await asyncio.to_thread(self._skills.owners):
            try:
                curated = await self._skills.curate(key, self._decide, dry_run=dry_run)
            except MemoryUnusable as error:
                failure = failure or error
            else:
                found += [curated] if curated else []
        if found and not dry_run:
            await self._report(found, by)
        if failure:
            raise failure
        return found

    def _decide(self, skills: Sequence[LearnedSkill]) -> Plan:
        return plan_curation(skills, pinned=self._pinned, policy=self._memory.curation, now=self._clock.now())

    async def _report(self, found: Sequence[CurationResult], by: str) -> None:
        sums = {
            "kept": sum(len(each.plan.kept) for each in found),
            "merged": sum(len(each.plan.merged) for each in found),
            "pruned": sum(len(each.plan.pruned) for each in found),
        }
        for outcome in ("merged", "pruned"):
            self._metrics.skills_curated.labels(outcome).inc(sums[outcome])
        await self._tell(EVENT, {"by": by, "owners": len(found), **sums})
        _logger.info("learned skills curated", extra={"by": by, **sums})
