"""What is looked up for a turn before its model is asked: facts of its caller, and skills that were learned for it.

Refuses: deciding for which turns anything may be looked up.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from fleetwright_agent.config.memory import KnowledgeMemory, LearnedSkillMemory
from fleetwright_agent.memory import fact_text
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage import learned_skill
from fleetwright_agent.storage.sqlite.facts import Knowledge
from fleetwright_agent.storage.sqlite.learned_skills import LearnedSkills
from fleetwright_agent.storage.words import words

HOT_CHARACTERS: Final = 6000
_ASKED: Final = 2000
"""Of a message: what is searched by."""
_FEW: Final = 4
"""Words of a message that goes on with what was said before it: "and for six, please"."""


Found = Callable[[TurnRequest, str], Awaitable[str]]
"""For a turn, and what was said in the conversation before it, the newest first."""


def facts_of(knowledge: Knowledge, policy: KnowledgeMemory) -> Found:
    """Those of every turn, and those that fit the message. What was said before it has been told its own."""

    async def found(turn: TurnRequest, _: str) -> str:
        hot = await knowledge.hot(turn.owner, characters=HOT_CHARACTERS) if policy.hot else []
        asked, most = turn.text[:_ASKED], policy.top_k
        fitting = await knowledge.recall(turn.owner, asked, most=most) if most else []
        given = {fact.n for fact in hot}
        return fact_text.told([*hot, *(fact for fact in fitting if fact.n not in given)])

    return found


def skills_of(skills: LearnedSkills, policy: LearnedSkillMemory, *, recalled: Callable[[int], object]) -> Found:
    """Those that fit the message, within their room (PA-101); a short one says little without what was said before.

    Args: `recalled` counts those that are told.
    """

    async def found(turn: TurnRequest, before: str) -> str:
        if not policy.top_k:
            return ""
        asked = turn.text[:_ASKED]
        if len(words(asked)) <= _FEW:
            asked = f"{asked}\n{before[:_ASKED]}"
        best = await skills.recall(turn.owner, asked, most=policy.top_k)
        fitting = learned_skill.fitting(best, tokens=policy.max_tokens)
        await skills.told(turn.owner, fitting)
        recalled(len(fitting))
        return learned_skill.told(fitting)

    return found
