"""Looks up the caller's facts and learned skills for a turn before its model is called.

This module does not decide for which turns a lookup is allowed.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from fleetwright_agent.config.memory import KnowledgeMemory, LearnedSkillMemory
from fleetwright_agent.memory import fact_text
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage import learned_skills
from fleetwright_agent.storage.facts import FactStore
from fleetwright_agent.storage.learned_skills import LearnedSkillStore
from fleetwright_agent.storage.tokenizer import words

HOT_CHARACTERS: Final = 6000
_ASKED: Final = 2000
"""The number of characters of a message that the search uses."""
_FEW: Final = 4
"""A message with at most this many words is assumed to refer to the previous one, as "and for six, please" does."""


Found = Callable[[TurnRequest, str], Awaitable[str]]
"""Takes a turn and the earlier messages of its conversation, newest first; returns text for the prompt."""


def facts_of(knowledge: FactStore, policy: KnowledgeMemory) -> Found:
    """Return a lookup of the facts marked for every turn ("hot") and of the facts that match the message.

    The lookup ignores earlier messages, because their own turns have already searched for them.
    """

    async def found(turn: TurnRequest, _: str) -> str:
        hot = await knowledge.hot(turn.owner, characters=HOT_CHARACTERS) if policy.hot else []
        asked, most = turn.text[:_ASKED], policy.top_k
        fitting = await knowledge.recall(turn.owner, asked, most=most) if most else []
        given = {fact.n for fact in hot}
        return fact_text.render_facts([*hot, *(fact for fact in fitting if fact.n not in given)])

    return found


def skills_of(skills: LearnedSkillStore, policy: LearnedSkillMemory, *, recalled: Callable[[int], object]) -> Found:
    """Return a lookup of the skills that match the message, within the token limit.

    A short message is searched together with the messages before it.

    Args: `recalled` is called with the number of skills that the model is shown.
    """

    async def found(turn: TurnRequest, before: str) -> str:
        if not policy.top_k:
            return ""
        asked = turn.text[:_ASKED]
        if len(words(asked)) <= _FEW:
            asked = f"{asked}\n{before[:_ASKED]}"
        best = await skills.recall(turn.owner, asked, most=policy.top_k)
        fitting = learned_skills.fit_to_tokens(best, tokens=policy.max_tokens)
        await skills.told(turn.owner, fitting)
        recalled(len(fitting))
        return learned_skills.render_skills(fitting)

    return found
