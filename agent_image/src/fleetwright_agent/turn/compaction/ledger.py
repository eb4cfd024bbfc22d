"""What an earlier conversation came to, as typed entries that code finds and no model rewrites. Pure.

A summary of a summary loses a little every time; an entry stands until newer ones need its room. Entries come from
the messages that make way, one pass each: the caller's own words, identifiers, files, decisions, errors, and what
was done.
"""

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

ENTRY: Final = 240
"""Characters of one entry at most."""
_SHORT_RESULT: Final = 800
_MOST_OF_MESSAGE: Final = 20
_MOST_READ: Final = 8000
_MOST_OF_RESULT: Final = 6


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


@dataclass(frozen=True, slots=True)
class Entry:
    kind: Kind
    text: str
    key: str = ""
    """What a newer entry replaces; the text itself where there is none."""

    @property
    def identity(self) -> tuple[Kind, str]:
        return self.kind, (self.key or self.text).casefold()


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_PATH: Final = re.compile(
    r"(?<![\w:/])(?:~?/|\.{1,2}/)?(?:[\w.-]+/)+[\w-]+\.[A-Za-z]\w{0,9}\b|(?<![\w:/])/(?:[\w.-]+/)+[\w.-]+"
)
_IDENTIFIER: Final = re.compile(
    r"https?://\S+|(?<![\w.+-])[\w.+-]+@[\w-]+\.\w+|\b\w*\d[\w.,:/#-]*|\b[A-Z]{2,}[\w-]*\b|\"[^\"\n]{2,60}\"|`[^`\n]{2,60}`"
)
_NAME: Final = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]+")
_WORD: Final = re.compile(r"\w+")
_DECISION: Final = re.compile(
    r"\b(decid\w*|decision|agreed?|approv\w*|declin\w*|reject\w*|chose\w*|settled? on|go(?:ing)? with|instead of"
    r"|prefer\w*|from now on)\b",
    re.IGNORECASE,
)


def found(messages: Sequence[AnyMessage]) -> list[Entry]:
    """The entries of some messages, oldest first."""
    calls = {call["id"]: call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls}
    spoken = _spoken(messages)
    entries: list[Entry] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            entries += _of_text(message.text, Kind.SAID)
        elif isinstance(message, AIMessage):
            entries += _of_text(message.text, Kind.NOTED)
        elif isinstance(message, ToolMessage):
            entries += _of_result(message, calls.get(message.tool_call_id), spoken)
    return entries


def _of_text(text: str, otherwise: Kind) -> list[Entry]:
    entries: list[Entry] = []
    for sentence in sentences(text):
        entries += [Entry(Kind.FILE, path, path) for path in _PATH.findall(sentence)]
        if sentence.endswith("?"):
            continue
        if _DECISION.search(sentence):
            entries.append(Entry(Kind.DECISION, sentence))
        elif _IDENTIFIER.search(sentence) or _NAME.search(sentence):
            entries.append(Entry(Kind.IDENTIFIER, sentence))
        elif len(sentence.split()) > 2:
            entries.append(Entry(otherwise, sentence))
    return entries[:_MOST_OF_MESSAGE]


def _of_result(message: ToolMessage, call: Mapping[str, Any] | None, spoken: frozenset[str]) -> list[Entry]:
    lines = sentences(message.text)
    first = lines[0] if lines else ""
    name = message.name or (call["name"] if call else "a tool")
    made = _signature(name, call["args"] if call else {})
    if message.status == "error":
        return [Entry(Kind.ERROR, _short(f"{made}: {first}"), made)]
    entries = [Entry(Kind.FILE, path, path) for path in _PATH.findall(made)]
    whole = len(message.text) <= _SHORT_RESULT
    for line in lines:
        told = _IDENTIFIER.findall(line)
        # Of a long result only what somebody spoke of: it may hold thousands of numbers that nobody needs.
        if told and (whole or any(word in spoken for word in told)):
            entries.append(Entry(Kind.FOUND, line))
    return [*entries[:_MOST_OF_RESULT], Entry(Kind.DONE, _short(f"{made}: {first}"), made)]


def _signature(name: str, arguments: Mapping[str, Any]) -> str:
    told = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return f"{name}({told[1:-1] if len(told) <= 122 else told[1:120] + '…'})"


def _spoken(messages: Iterable[AnyMessage]) -> frozenset[str]:
    return frozenset(
        word
        for message in messages
        if isinstance(message, HumanMessage | AIMessage)
        for sentence in sentences(message.text)
        for word in _IDENTIFIER.findall(sentence)
        if len(word) > 2
    )


def sentences(text: str) -> list[str]:
    """Its sentences and lines, each on one line; a long one in pieces that end with a word."""
    return [piece for part in whole_sentences(text) for piece in _pieces(part)]


def _pieces(part: str) -> list[str]:
    # Most need no wrapping, which costs ten times what finding them does.
    return [part] if len(part) <= ENTRY else textwrap.wrap(part, ENTRY)


def whole_sentences(text: str) -> list[str]:
    return [" ".join(part.split()) for part in _SENTENCE.split(text) if part.strip()]


def _short(text: str) -> str:
    return text if len(text) <= ENTRY else f"{text[: ENTRY - 1]}…"


def merged(earlier: Sequence[Entry], newer: Sequence[Entry]) -> list[Entry]:
    """Both, oldest first; what is said again, or anew of the same thing, stands once, where it was said last."""
    entries: dict[tuple[Kind, str], Entry] = {}
    for entry in [*earlier, *newer]:
        entries.pop(entry.identity, None)
        entries[entry.identity] = entry
    return list(entries.values())


_SHARES: Final = {
    Kind.DECISION: 0.15,
    Kind.IDENTIFIER: 0.35,
    Kind.SAID: 0.2,
    Kind.NOTED: 0.1,
    Kind.FOUND: 0.05,
    Kind.ERROR: 0.05,
    Kind.DONE: 0.05,
    Kind.FILE: 0.05,
}
"""Of the room: what people said comes before what a tool can be asked again. What a kind does not use, others do."""


def vocabulary(messages: Sequence[AnyMessage]) -> Counter[str]:
    """How often each word is used, in long texts at their beginning."""
    return Counter(word for message in messages for word in _WORD.findall(message.text[:_MOST_READ].casefold()))


def _weight(entry: Entry, used: Mapping[str, int], most: float) -> float:
    """The mean rarity of its words, from 0 to 1: what is said all the time says little."""
    words = _WORD.findall(entry.text.casefold())
    return sum(1 - math.log(used.get(word, 0) + 1) / most for word in words) / max(1, len(words))


def bounded(entries: Sequence[Entry], limit: int, used: Counter[str]) -> list[Entry]:
    """The entries that fit into so many characters, the weightiest of each kind, in their order."""
    if sum(len(line(entry)) for entry in entries) <= limit:
        return list(entries)
    most = math.log(used.total() + 2)
    weight = [_weight(entry, used, most) for entry in entries]
    ranked = sorted(range(len(entries)), key=lambda i: (-weight[i], -i))
    kept: set[int] = set()
    left = limit
    for share in (_SHARES, dict.fromkeys(_SHARES, 1.0)):
        for kind, part in share.items():
            candidates = [i for i in ranked if entries[i].kind is kind and i not in kept]
            taken = _filled(candidates, entries, min(left, int(part * limit)))
            kept |= taken
            left -= sum(len(line(entries[i])) for i in taken)
    return [entry for i, entry in enumerate(entries) if i in kept]


def _filled(ranked: Sequence[int], entries: Sequence[Entry], room: int) -> set[int]:
    """The first of them that fit."""
    taken: set[int] = set()
    for index in ranked:
        room -= len(line(entries[index]))
        if room < 0:
            break
        taken.add(index)
    return taken


_HEADINGS: Final = {
    Kind.DECISION: "Decisions",
    Kind.IDENTIFIER: "Names, numbers and identifiers, to the letter",
    Kind.SAID: "The user said",
    Kind.NOTED: "Noted",
    Kind.FOUND: "Found by tools",
    Kind.FILE: "Files",
    Kind.ERROR: "Errors",
    Kind.DONE: "Done, not to be done again",
}


def line(entry: Entry) -> str:
    return f"- {entry.text}\n"


def rendered(entries: Sequence[Entry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
