"""What one message says, as entries of the ledger and words that are looked for in results. Pure.

A message is read once, whatever becomes of it: only what a long result is worth depends on what others spoke of.
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.turn.compaction.ledger import ENTRY, Entry, Kind

_SHORT_RESULT: Final = 800
_MOST_OF_MESSAGE: Final = 20
_MOST_OF_RESULT: Final = 6
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_PATH: Final = re.compile(
    r"(?<![\w:/])(?:~?/|\.{1,2}/)?(?:[\w.-]+/)+[\w-]+\.[A-Za-z]\w{0,9}\b|(?<![\w:/])/(?:[\w.-]+/)+[\w.-]+"
)
_IDENTIFIER: Final = re.compile(
    r"https?://\S+|(?<![\w.+-])[\w.+-]+@[\w-]+\.\w+|\b\w*\d[\w.,:/#-]*|\b[A-Z]{2,}[\w-]*\b|\"[^\"\n]{2,60}\"|`[^`\n]{2,60}`"
)
_NAME: Final = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]+")
_DECISION: Final = re.compile(
    r"\b(decid\w*|decision|agreed?|approv\w*|declin\w*|reject\w*|chose\w*|settled? on|go(?:ing)? with|instead of"
    r"|prefer\w*|from now on)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Page:
    """One message, read."""

    entries: tuple[Entry, ...] = ()
    """Of what a person or the model said."""
    spoken: frozenset[str] = frozenset()
    """Identifiers in it."""
    first: str = ""
    """Line of a result."""
    lines: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of a result: those with identifiers, and these."""


def page_of(message: AnyMessage) -> Page:
    said = sentences(message.text)
    if isinstance(message, ToolMessage):
        told = ((line, tuple(_IDENTIFIER.findall(line))) for line in said)
        return Page(first=said[0] if said else "", lines=tuple((line, names) for line, names in told if names))
    if not isinstance(message, HumanMessage | AIMessage):
        return Page()
    spoken = frozenset(word for sentence in said for word in _IDENTIFIER.findall(sentence) if len(word) > 2)
    otherwise = Kind.SAID if isinstance(message, HumanMessage) else Kind.NOTED
    return Page(tuple(_of_text(said, otherwise)), spoken)


def found(messages: Sequence[AnyMessage], pages: Sequence[Page]) -> list[Entry]:
    """The entries of some messages, oldest first; `pages` are theirs."""
    calls = {call["id"]: call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls}
    spoken: frozenset[str] = frozenset().union(*(page.spoken for page in pages))
    entries: list[Entry] = []
    for message, page in zip(messages, pages, strict=True):
        if isinstance(message, ToolMessage):
            entries += _of_result(message, page, calls.get(message.tool_call_id), spoken)
        else:
            entries += page.entries
    return entries


def _of_text(said: Sequence[str], otherwise: Kind) -> list[Entry]:
    entries: list[Entry] = []
    for sentence in said:
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


def _of_result(message: ToolMessage, page: Page, call: Mapping[str, Any] | None, spoken: frozenset[str]) -> list[Entry]:
    name = message.name or (call["name"] if call else "a tool")
    made = _signature(name, call["args"] if call else {})
    if message.status == "error":
        return [Entry(Kind.ERROR, _short(f"{made}: {page.first}"), made)]
    entries = [Entry(Kind.FILE, path, path) for path in _PATH.findall(made)]
    whole = len(message.text) <= _SHORT_RESULT
    # Of a long result only what somebody spoke of: it may hold thousands of numbers that nobody needs.
    entries += [Entry(Kind.FOUND, line) for line, told in page.lines if whole or not spoken.isdisjoint(told)]
    return [*entries[:_MOST_OF_RESULT], Entry(Kind.DONE, _short(f"{made}: {page.first}"), made)]


def _signature(name: str, arguments: Mapping[str, Any]) -> str:
    told = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return f"{name}({told[1:-1] if len(told) <= 122 else told[1:120] + '…'})"


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
