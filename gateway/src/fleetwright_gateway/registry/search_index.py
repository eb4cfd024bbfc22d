"""Search among agents: filters and a lexical score.

The words of a query are compared with names, skills, tags and descriptions. A word in a name counts most. The index
holds one document for each agent, which is built once for each version of the Agent and its card.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.resources import CARD
from fleetwright_kube.cache import Change

_WORD: Final = re.compile(r"\w+")
_IN_NAME: Final = 4
_IN_SKILLS: Final = 3
_IN_DESCRIPTION: Final = 2


@dataclass(frozen=True, slots=True)
class CardSkill:
    """A skill of a card."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The searchable content of one agent."""

    view: AgentView
    card: Mapping[str, Any]
    """Empty if the operator has not written a card yet."""
    skills: tuple["CardSkill", ...]
    tags: frozenset[str]
    texts: tuple[str, str, str]
    """In lower case: the name, the skills and tags, and the description."""
    text: str
    """The three `texts`, joined by line breaks."""

    @property
    def phase(self) -> str:
        return str(self.view.status.get("phase", "Pending"))

    @property
    def description(self) -> str:
        return str(self.card.get("description") or self.view.spec.description)


@dataclass(frozen=True, slots=True)
class TextQuery:
    """The text of a search query, and its words."""

    text: str
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(_WORD.findall(self.text.lower())))

    def ranked(self, documents: Iterable[Document]) -> list[Document]:
        """Return the documents that contain at least one word, the best matches first.

        Documents with equal points keep their order.
        """
        groups = self._by_points(documents)
        return list(chain.from_iterable(groups[points] for points in sorted(groups, reverse=True)))

    def score(self, document: Document) -> int:
        """Return how well a document of `ranked` matches, from 1 to 100. If the name has every word, it is 100."""
        ((points, _),) = self._by_points([document]).items()
        return max(1, round(100 * points / (_IN_NAME * len(self.words))))

    def _by_points(self, documents: Iterable[Document]) -> dict[int, list[Document]]:
        """Return the documents that contain at least one word, by their points.

        A call for each document, or sorting all of them, would take longer.
        """
        groups: dict[int, list[Document]] = {}
        for document in documents:
            points, text = 0, document.text
            for word in self.words:
                if word in text:  # Few documents contain a word, so the joined text is searched first.
                    name, offered, _ = document.texts
                    points += _IN_NAME if word in name else _IN_SKILLS if word in offered else _IN_DESCRIPTION
            if points in groups:
                groups[points].append(document)
            elif points:
                groups[points] = [document]
        return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    text: str = ""
    skill: str = ""
    tag: str = ""
    phase: str = ""

    def apply(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents that match every filter that is set. With a text, the best matches come first."""
        if self.phase:
            documents = [each for each in documents if each.phase == self.phase]
        if self.tag:
            documents = [each for each in documents if self.tag in each.tags]
        if self.skill:
            documents = [each for each in documents if _has_skill(each, self.skill)]
        if self.text:
            documents = TextQuery(self.text).ranked(documents)
        return documents


class SearchIndex:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._documents: dict[str, Document] = {}
        """By the uid of the Agent."""
        fleet.observe(self._forget)

    def documents(self, agents: Sequence[AgentView]) -> Sequence[Document]:
        known = self._documents
        return [known.get(agent.uid) or self.document(agent) for agent in agents]

    def document(self, agent: AgentView) -> Document:
        found = self._documents.get(agent.uid)
        if found is None:
            found = _document(agent, self._fleet.card_of(agent) or {})
            # A caller may hold an earlier version of the agent. Its document must not stay in the index.
            if self._fleet.agents.get((agent.namespace, agent.name)) is agent:
                self._documents[agent.uid] = found
        return found

    def _forget(self, change: Change) -> None:
        entry = change.entry
        if entry.kind == names.AGENT:
            for side in (change.before, change.after):
                if side is not None:
                    self._documents.pop(side.uid, None)
        elif entry.kind == CARD and entry.controller is not None:
            self._documents.pop(entry.controller.uid, None)


def _has_skill(document: Document, skill: str) -> bool:
    return any(skill in (each.id, each.name) for each in document.skills)


def _document(agent: AgentView, card: Mapping[str, Any]) -> Document:
    listed = card.get("skills")
    skills = tuple(_skill(each) for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
    tags = frozenset(tag for skill in skills for tag in skill.tags)
    told = [text for skill in skills for text in (skill.id, skill.name, skill.description)]
    description = str(card.get("description") or agent.spec.description)
    name = f"{agent.name} {card.get('name', '')}".lower()
    offered = " ".join([*told, *sorted(tags)]).lower()
    texts = (name, offered, f"{description} {agent.namespace}".lower())
    return Document(view=agent, card=card, skills=skills, tags=tags, texts=texts, text="\n".join(texts))


def _skill(listed: Mapping[str, Any]) -> CardSkill:
    """Return a skill without malformed values. Users of a namespace can change cards."""
    identity, name, description = (str(listed.get(key, "")) for key in ("id", "name", "description"))
    tags = listed.get("tags")
    known = tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()
    return CardSkill(identity, name, description, known)
