"""Search among agents: filters and a lexical score. Pure, except for a cache of the searched texts.

The words of a query are compared with names, skills, tags and descriptions. A word in a name counts most.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.call_authorization import Identity, identity_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.http.cards import CardResponses

_WORD: Final = re.compile(r"\w+")
_WEIGHTS: Final = (4, 3, 2)
"""The weights of a word in the name, in a skill or tag, and in the description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The searchable content of one agent."""

    view: AgentView
    card: Mapping[str, Any]
    """Empty if the operator has not written a card yet."""
    skills: tuple[Mapping[str, Any], ...]
    tags: frozenset[str]
    texts: tuple[str, str, str]
    """In lower case: the name, the skills and tags, and the description."""

    @property
    def phase(self) -> str:
        return str(self.view.status.get("phase", "Pending"))

    @property
    def description(self) -> str:
        return str(self.card.get("description") or self.view.spec.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    text: str = ""
    skill: str = ""
    tag: str = ""
    phase: str = ""

    def match(self, document: Document) -> bool:
        return (
            (not self.phase or document.phase == self.phase)
            and (not self.tag or self.tag in document.tags)
            and (not self.skill or any(self.skill in {each.get("id"), each.get("name")} for each in document.skills))
            and (not self.text or score(self.text, document) > 0)
        )


class SearchIndex:
    """The documents of agents. A document is built once for each version of an Agent and its card."""

    def __init__(self, cards: CardResponses) -> None:
        self._cards = cards
        self._documents: dict[Identity, tuple[AgentView, object, Document]] = {}

    def documents(self, agents: Sequence[AgentView]) -> Iterable[Document]:
        if len(self._documents) > 2 * len(agents) + 10_000:
            self._documents.clear()  # Most of these agents were deleted.
        return (self.document(agent) for agent in agents)

    def document(self, agent: AgentView) -> Document:
        key, card = identity_of(agent), self._cards.original(agent)
        known = self._documents.get(key)
        if known is not None and known[0] is agent and known[1] is card:
            return known[2]
        document = _document(agent, card or {})
        self._documents[key] = (agent, card, document)
        return document


def score(text: str, document: Document) -> int:
    """Return how well an agent matches a text, from 0 to 100. Every word that is found in the name gives the most."""
    words = _WORD.findall(text.lower())
    found = [
        next((weight for weight, text in zip(_WEIGHTS, document.texts, strict=True) if word in text), 0)
        for word in words
    ]
    return round(100 * sum(found) / (_WEIGHTS[0] * len(words))) if words else 0


def _document(agent: AgentView, card: Mapping[str, Any]) -> Document:
    listed = card.get("skills")
    skills = tuple(each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
    tags = frozenset(str(tag) for skill in skills for tag in skill.get("tags") or ())
    told = [str(skill.get(key, "")) for skill in skills for key in ("id", "name", "description")]
    description = str(card.get("description") or agent.spec.description)
    texts = (
        f"{agent.name} {card.get('name', '')}",
        " ".join([*told, *sorted(tags)]),
        f"{description} {agent.namespace}",
    )
    lowered = tuple(text.lower() for text in texts)
    return Document(view=agent, card=card, skills=skills, tags=tags, texts=(lowered[0], lowered[1], lowered[2]))
