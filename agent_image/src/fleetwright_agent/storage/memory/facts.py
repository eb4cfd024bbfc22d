"""Facts and learned skills in memory. A search ranks them by the number of words that the question shares with them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fleetwright_agent.storage.facts import Fact, TooManyFacts
from fleetwright_agent.storage.learned_skills import CurationResult, LearnedSkill, Plan, SkillDraft
from fleetwright_agent.storage.memory.tables import MemoryTables
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.tokenizer import words


class MemoryFactStore:
    def __init__(self, tables: MemoryTables, *, now: Callable[[], float]) -> None:
        """Args: `now` is in seconds since the epoch."""
        self._tables = tables
        self._facts = tables.facts
        self._now = now

    async def remember(self, owner: str, text: str, source: Provenance, *, hot: bool, most: int) -> int:
        facts = self._facts.setdefault(owner, {})
        known = next((fact.n for fact in facts.values() if fact.text == text), None)
        if known is None and len(facts) >= most:
            raise TooManyFacts
        if known is None:
            self._tables.last_fact += 1
        n = known or self._tables.last_fact
        facts[n] = Fact(n, text, hot, source, self._now())
        return n

    async def recall(self, owner: str, question: str, *, most: int) -> list[Fact]:
        facts = self._facts.get(owner, {}).values()
        return sorted(
            (fact for fact in facts if _common(question, fact.text)),
            key=lambda fact: (-_common(question, fact.text), -fact.n),
        )[:most]

    async def hot(self, owner: str, *, characters: int) -> list[Fact]:
        newest = sorted(self._facts.get(owner, {}).values(), key=lambda fact: (-fact.at, -fact.n))
        found: list[Fact] = []
        for fact in newest:
            if fact.hot:
                characters -= len(fact.text)
                if characters < 0:
                    break
                found.append(fact)
        return found

    async def forget(self, owner: str, n: int) -> bool:
        return self._facts.get(owner, {}).pop(n, None) is not None

    async def facts(self, owner: str, context_id: str = "") -> list[Fact]:
        found = self._facts.get(owner, {}).values()
        return sorted((fact for fact in found if context_id in ("", fact.source.context_id)), key=lambda fact: fact.n)

    async def erase(self, owner: str, context_id: str = "") -> None:
        for fact in await self.facts(owner, context_id):
            del self._facts[owner][fact.n]

    async def aclose(self) -> None:
        """Do nothing: there is no file."""


class MemoryLearnedSkillStore:
    def __init__(self, tables: MemoryTables, *, now: Callable[[], float]) -> None:
        """Args: `now` is in seconds since the epoch."""
        self._tables = tables
        self._skills = tables.skills
        self._now = now

    async def learn(self, owner: str, draft: SkillDraft, source: Provenance, *, most: int) -> bool:
        skills, now = self._skills.setdefault(owner, {}), self._now()
        for known in skills.values():
            if known.draft.name == draft.name:
                skills[known.n] = replace(known, draft=draft, source=source, at=now, used=now)
                return False
        for old in sorted(skills.values(), key=lambda skill: (-skill.used, -skill.n))[most - 1 :]:
            del skills[old.n]
        self._tables.last_skill += 1
        n = self._tables.last_skill
        skills[n] = LearnedSkill(n, draft, source, now, now, 0)
        return True

    async def recall(self, owner: str, question: str, *, most: int) -> list[LearnedSkill]:
        skills = self._skills.get(owner, {}).values()
        found = [skill for skill in skills if _common(question, _text(skill))]
        return sorted(found, key=lambda skill: (-_common(question, _text(skill)), -skill.n))[:most]

    async def told(self, owner: str, skills: Sequence[LearnedSkill]) -> None:
        stored = self._skills.get(owner, {})
        for skill in skills:
            if known := stored.get(skill.n):
                stored[skill.n] = replace(known, used=self._now(), uses=known.uses + 1)

    async def skills(self, owner: str, *, context_id: str = "", task_id: str = "") -> list[LearnedSkill]:
        return [
            skill
            for _, skill in sorted(self._skills.get(owner, {}).items())
            if context_id in ("", skill.source.context_id) and task_id in ("", skill.source.task_id)
        ]

    async def erase(self, owner: str, context_id: str = "") -> None:
        for skill in await self.skills(owner, context_id=context_id):
            del self._skills[owner][skill.n]

    def owners(self) -> list[str]:
        return sorted(owner for owner, skills in self._skills.items() if skills)

    async def curate(
        self, key: str, decide: Callable[[Sequence[LearnedSkill]], Plan], *, dry_run: bool
    ) -> CurationResult | None:
        skills = await self.skills(key)
        if not skills:
            return None
        plan = decide(skills)
        if not dry_run:
            self._apply(key, plan)
        return CurationResult(skills[0].source.said_by, plan)

    def _apply(self, key: str, plan: Plan) -> None:
        stored = self._skills[key]
        for skill in (*plan.pruned, *(merge.skill for merge in plan.merged)):
            stored.pop(skill.n, None)
        for merge in plan.merged:
            for skill in [each for each in stored.values() if each.draft.name == merge.into]:
                stored[skill.n] = replace(skill, uses=skill.uses + merge.skill.uses)

    async def aclose(self) -> None:
        """Do nothing: there is no file."""


def _text(skill: LearnedSkill) -> str:
    return " ".join((skill.draft.name, skill.draft.description, skill.draft.prompt_template, *skill.draft.tools_used))


def _common(question: str, text: str) -> int:
    return len({*words(question)} & {*words(text)})
