"""The ledger: entries extracted from the earlier conversation. Code selects them, and no model rewrites them. Pure.

Each summary of a summary loses information. A ledger entry stays verbatim until newer entries need its space. Entries
come from the messages that a summary replaces: the caller's own words, identifiers, files, decisions, errors, and
finished work.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from fleetwright_agent.turn.compaction.text.subjects import Subject, subject_of

ENTRY: Final = 240
"""The maximum characters of one entry."""
LATEST: Final = " [latest]"
EARLIER: Final = " [earlier]"
_WORD: Final = re.compile(r"\w+")


class EntrySource(StrEnum):
    """The author of the text of an entry."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SUMMARY = "summary"
    """The model that wrote a summary. It may repeat statements that were corrected later."""


class EntryKind(StrEnum):
    """The kind of an entry, in the order of the sections of a summary."""

    DECISION = "decisions"
    IDENTIFIER = "identifiers"
    SAID = "said"
    NOTED = "noted"
    FOUND = "found"
    FILE = "files"
    ERROR = "errors"
    DONE = "done"
    QUOTED = "quoted"
    """Text in a message of the user that is not the user's own words."""


@dataclass(frozen=True)
class LedgerEntry:
    """An entry of the ledger. Derived values are cached, because a compaction needs them for thousands of entries."""

    kind: EntryKind
    text: str
    key: str = ""
    """A newer entry with the same kind and key replaces this entry. If the key is empty, the text is the key."""
    read: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """The words of the text, if the caller already has them."""
    source: EntrySource = field(default=EntrySource.AGENT, compare=False)

    mark: str = field(default="", compare=False)
    """`LATEST` or `EARLIER` if several statements on the same subject are shown, otherwise empty."""

    def marked(self, mark: str) -> "LedgerEntry":
        return self if mark == self.mark else replace(self, mark=mark)

    @cached_property
    def identity(self) -> tuple[EntryKind, str]:
        return self.kind, self.key.casefold() if self.key else self.folded

    @cached_property
    def folded(self) -> str:
        """The text in case-folded form."""
        return self.text.casefold()

    @cached_property
    def subject(self) -> Subject:
        return subject_of(self.text)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return words(self.text) if self.read is None else self.read


def merge_entries(earlier: Sequence[LedgerEntry], newer: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Return the entries of both lists, oldest first. Of several entries with the same identity, the newest stays."""
    entries: dict[tuple[EntryKind, str], LedgerEntry] = {}
    for entry in [*earlier, *newer]:
        entries.pop(entry.identity, None)
        entries[entry.identity] = entry
    return list(entries.values())


def words(text: str) -> tuple[str, ...]:
    return tuple(map(sys.intern, _WORD.findall(text.casefold())))


GROUPED: Final = frozenset((EntryKind.DECISION, EntryKind.IDENTIFIER, EntryKind.SAID, EntryKind.NOTED))
"""The kinds that are grouped by subject. In the other kinds, a new result of the same call replaces the old result."""
_HEADINGS: Final = {
    EntryKind.DECISION: "Decisions",
    EntryKind.IDENTIFIER: "Names, numbers and identifiers, to the letter",
    EntryKind.SAID: "The user said",
    EntryKind.NOTED: "Noted",
    EntryKind.FOUND: "Found by tools",
    EntryKind.FILE: "Files",
    EntryKind.ERROR: "Errors",
    EntryKind.DONE: "Done, not to be done again",
    EntryKind.QUOTED: "Quoted in messages of the user, not said by the user",
}


def line(entry: LedgerEntry) -> str:
    return f"- {entry.text}{entry.mark}\n"


def rendered(entries: Sequence[LedgerEntry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
