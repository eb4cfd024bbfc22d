"""What an earlier conversation came to, as typed entries that code finds and no model rewrites. Pure.

A summary of a summary loses a little every time; an entry stands until newer ones need its room. Entries come from
the messages that make way, one pass each: the caller's own words, identifiers, files, decisions, errors, and what
was done.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from fleetwright_agent.turn.compaction.subjects import Subject, subject_of

ENTRY: Final = 240
"""Characters of one entry at most."""
LATEST: Final = " [latest]"
EARLIER: Final = " [earlier]"
_WORD: Final = re.compile(r"\w+")


class Source(StrEnum):
    """The author of the text of an entry."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SUMMARY = "summary"
    """The model that wrote a summary: it may repeat what was corrected since."""


class Kind(StrEnum):
    """In the order in which they are shown."""

    DECISION = "decisions"
    IDENTIFIER = "identifiers"
    SAID = "said"
    NOTED = "noted"
    FOUND = "found"
    FILE = "files"
    ERROR = "errors"
    DONE = "done"
    QUOTED = "quoted"
    """In a message of the user, and not the user's own words."""


@dataclass(frozen=True)
class Entry:
    """What is found out about it is kept: of thousands, a compaction asks each."""

    kind: Kind
    text: str
    key: str = ""
    """What a newer entry replaces; the text itself where there is none."""
    read: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """Its words, where whoever found it has them."""
    source: Source = field(default=Source.AGENT, compare=False)

    mark: str = field(default="", compare=False)
    """The mark that says whether this is the latest statement on its subject."""

    def marked(self, mark: str) -> "Entry":
        return self if mark == self.mark else replace(self, mark=mark)

    @cached_property
    def identity(self) -> tuple[Kind, str]:
        return self.kind, self.key.casefold() if self.key else self.folded

    @cached_property
    def folded(self) -> str:
        """The text without regard to case."""
        return self.text.casefold()

    @cached_property
    def subject(self) -> Subject:
        return subject_of(self.text)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return words(self.text) if self.read is None else self.read


def merged(earlier: Sequence[Entry], newer: Sequence[Entry]) -> list[Entry]:
    """Both, oldest first; what is said again, or anew of the same thing, stands once, where it was said last."""
    entries: dict[tuple[Kind, str], Entry] = {}
    for entry in [*earlier, *newer]:
        entries.pop(entry.identity, None)
        entries[entry.identity] = entry
    return list(entries.values())


def words(text: str) -> tuple[str, ...]:
    return tuple(map(sys.intern, _WORD.findall(text.casefold())))


GROUPED: Final = frozenset((Kind.DECISION, Kind.IDENTIFIER, Kind.SAID, Kind.NOTED))
"""Kinds of what people and the model say. A new result of a tool call replaces the earlier result of the same call."""
_HEADINGS: Final = {
    Kind.DECISION: "Decisions",
    Kind.IDENTIFIER: "Names, numbers and identifiers, to the letter",
    Kind.SAID: "The user said",
    Kind.NOTED: "Noted",
    Kind.FOUND: "Found by tools",
    Kind.FILE: "Files",
    Kind.ERROR: "Errors",
    Kind.DONE: "Done, not to be done again",
    Kind.QUOTED: "Quoted in messages of the user, not said by the user",
}


def line(entry: Entry) -> str:
    return f"- {entry.text}{entry.mark}\n"


def rendered(entries: Sequence[Entry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
