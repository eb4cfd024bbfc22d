"""Extracts the ledger entries and words of one message. Pure.

A message is extracted once. From a long result, only the lines that other messages mention are selected later.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.turn.compaction.ledger import ENTRY, GROUPED, EntryKind, EntrySource, LedgerEntry, words
from fleetwright_agent.turn.compaction.text.sentences import excerpt
from fleetwright_agent.turn.compaction.text.sentences import sentences as split
from fleetwright_agent.turn.compaction.text.subjects import antecedent, corrects
from fleetwright_agent.turn.compaction.text.voice import Voice, lines

_MOST_WORDS: Final = 1500
_SHORT_RESULT: Final = 800
_MOST_OF_MESSAGE: Final = 20
_MOST_OF_RESULT: Final = 6
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
class MessageExtract:
    """The extracted content of one message."""

    words: tuple[str, ...] = ()
    """The words, with repetitions; for a long text, only the words at its beginning."""
    entries: tuple[LedgerEntry, ...] = ()
    """The entries: statements of a person or the model, or one entry for each line of a result with an identifier."""
    spoken: frozenset[str] = frozenset()
    """The identifiers in a message of a person or the model."""
    made: Mapping[str, "ToolCallExtract"] = field(default_factory=dict)
    """The tool calls of the message, by id."""
    first: "Sentence | None" = None
    """The first sentence of a result."""
    whole: bool = False
    """True for a result that is short enough to keep all of its lines."""
    names: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For a longer result: the indexes of the entries that mention each identifier."""


@dataclass(frozen=True, slots=True)
class ToolCallExtract:
    """A tool call."""

    signature: str
    words: tuple[str, ...]
    """The words of the signature."""
    files: tuple[LedgerEntry, ...] = ()


def page_of(message: AnyMessage) -> MessageExtract:
    text = message.text
    said = [Sentence(sentence, words(sentence)) for sentence in sentences(text)]
    used = tuple(islice(chain.from_iterable(each.words for each in said), _MOST_WORDS))
    if isinstance(message, ToolMessage):
        return _result(said, used, whole=len(text) <= _SHORT_RESULT)
    if not isinstance(message, HumanMessage | AIMessage):
        return MessageExtract(used)
    spoken = frozenset(word for each in said for word in _IDENTIFIER.findall(each.text) if len(word) > 2)
    otherwise = EntryKind.SAID if isinstance(message, HumanMessage) else EntryKind.NOTED
    source = EntrySource.USER if isinstance(message, HumanMessage) else EntrySource.AGENT
    quoted = _quoted(text) if source is EntrySource.USER else ()
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    made = {call["id"] or "": _made(call["name"], call["args"]) for call in calls}
    return MessageExtract(used, tuple(map(_known, _of_text(said, otherwise, source, quoted))), spoken, made)


class Sentence(NamedTuple):
    """A sentence, or a line."""

    text: str
    words: tuple[str, ...]


def _result(said: Sequence[Sentence], used: tuple[str, ...], *, whole: bool) -> MessageExtract:
    told = [(each, found) for each in said if (found := set(_IDENTIFIER.findall(each.text)))]
    names: dict[str, tuple[int, ...]] = {}
    for index, (_, found) in enumerate([] if whole else told):
        for name in found:
            names[name] = (*names.get(name, ()), index)
    entries = tuple(
        _known(LedgerEntry(EntryKind.FOUND, each.text, read=each.words, source=EntrySource.TOOL)) for each, _ in told
    )
    return MessageExtract(used, entries, first=said[0] if said else None, whole=whole, names=names)


def _known(entry: LedgerEntry) -> LedgerEntry:
    """Compute the cached properties of an entry now, so that a later compaction takes less time."""
    _ = entry.identity, entry.folded
    if entry.kind in GROUPED:
        _ = entry.subject
    return entry


def found(messages: Sequence[AnyMessage], pages: Sequence[MessageExtract]) -> list[LedgerEntry]:
    """Return the entries of some messages, oldest first. Args: `pages` are the extracts of these messages."""
    made = {identity: call for page in pages for identity, call in page.made.items()}
    spoken: frozenset[str] = frozenset().union(*(page.spoken for page in pages))
    entries: list[LedgerEntry] = []
    before: list[str] = []
    for message, page in zip(messages, pages, strict=True):
        if isinstance(message, ToolMessage):
            entries += _of_result(message, page, made.get(message.tool_call_id), spoken)
        else:
            entries += _with_antecedents(page.entries, before)
        before += [entry.text for entry in page.entries if entry.kind in _STATEMENTS]
    return entries


_STATEMENTS: Final = frozenset((EntryKind.DECISION, EntryKind.IDENTIFIER, EntryKind.SAID))


def _with_antecedents(entries: Sequence[LedgerEntry], before: Sequence[str]) -> list[LedgerEntry]:
    """Add the corrected statement to each correction that does not name its subject, and return all entries."""
    told: list[LedgerEntry] = []
    said = list(before[-_BEFORE:])
    for entry in entries:
        about = antecedent(entry.text, said) if entry.source is EntrySource.USER and entry.kind in _STATEMENTS else None
        told.append(
            entry if about is None else replace(entry, text=f'{entry.text} (about: "{_short(about)}")', read=None)
        )
        said.append(entry.text)
    return told


_BEFORE: Final = 8


def _of_text(
    said: Sequence[Sentence], otherwise: EntryKind, source: EntrySource, quoted: Sequence[str]
) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    for sentence, read in said:
        entries += [_file(path) for path in _PATH.findall(sentence)]
        marked = corrects(sentence)
        if sentence.endswith("?") and not marked:
            continue
        if any(each in sentence or sentence in each for each in quoted):
            kind = EntryKind.QUOTED
        elif _DECISION.search(sentence):
            kind = EntryKind.DECISION
        elif _IDENTIFIER.search(sentence) or _NAME.search(sentence):
            kind = EntryKind.IDENTIFIER
        elif marked or len(sentence.split()) > 2:
            kind = otherwise
        else:
            continue
        entries.append(LedgerEntry(kind, sentence, read=read, source=source))
    # Keep corrections beyond the limit, because the statement they correct may be kept from another message.
    late = [entry for entry in entries[_MOST_OF_MESSAGE:] if corrects(entry.text)]
    return [*entries[:_MOST_OF_MESSAGE], *late[:_MOST_OF_MESSAGE]]


def _quoted(text: str) -> list[str]:
    """Return the quoted lines in a user's message."""
    return [line.text for line in lines(text) if line.voice is Voice.QUOTED and len(line.text) >= _QUOTATION]


_QUOTATION: Final = 12
"""The minimum length of a quoted line. Shorter text also occurs by chance within other sentences."""


def _of_result(
    message: ToolMessage, page: MessageExtract, call: ToolCallExtract | None, spoken: frozenset[str]
) -> list[LedgerEntry]:
    made = call or _made(message.name or "a tool", {})
    first, used = (page.first.text, page.first.words) if page.first else ("", ())
    whole = f"{made.signature}: {first}"
    done = _short(whole)
    read = (*made.words, *used) if done == whole else words(done)
    if message.status == "error":
        return [LedgerEntry(EntryKind.ERROR, done, made.signature, read)]
    # Keep only those lines of a long result that the conversation mentions. Thousands of others may be irrelevant.
    told = page.entries if page.whole else _told(page, spoken)
    return [*[*made.files, *told][:_MOST_OF_RESULT], LedgerEntry(EntryKind.DONE, done, made.signature, read)]


def _told(page: MessageExtract, spoken: frozenset[str]) -> list[LedgerEntry]:
    return [page.entries[i] for i in sorted({i for name in spoken & page.names.keys() for i in page.names[name]})]


def _made(name: str, arguments: Mapping[str, Any]) -> ToolCallExtract:
    signature = _signature(name, arguments)
    return ToolCallExtract(signature, words(signature), tuple(map(_file, _PATH.findall(signature))))


def _file(path: str) -> LedgerEntry:
    return _known(LedgerEntry(EntryKind.FILE, path, path, words(path)))


def _signature(name: str, arguments: Mapping[str, Any]) -> str:
    told = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return f"{name}({told[1:-1] if len(told) <= 122 else told[1:120] + '…'})"


def sentences(text: str) -> list[str]:
    """Return the statements of a text in the form of the ledger, each on one line."""
    return split(text, ENTRY)


def _short(text: str) -> str:
    return text if len(text) <= ENTRY else excerpt(text, 0, ENTRY - 2)[0]
