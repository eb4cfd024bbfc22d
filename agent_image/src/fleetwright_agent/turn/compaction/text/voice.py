"""Decides which lines of a user's message are the user's own words, and which lines are pasted text.

People paste mails, contracts and logs into a conversation. An order in such a text is not an order of the user. This
module is pure. It recognises markers that most languages share (quotation marks, fences, mail headers), and English
sentences that introduce pasted text. If no marker decides, the voice of the line is unclear.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fleetwright_agent.turn.compaction.text.introductions import (
    MAY_INTRODUCE,
    MINE,
    MODAL,
    RULES,
    introduces,
    names_text,
)
from fleetwright_agent.turn.compaction.text.markers import (
    INNER_TAG,
    greets,
    is_letter,
    opens_own_tag,
    quoting_tag,
    tag_ends,
)

_APOSTROPHES: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
)


class Voice(StrEnum):
    OWN = "own"
    UNCLEAR = "unclear"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True)
class VoicedLine:
    """One line of a message, without white space around it."""

    text: str
    voice: Voice
    indented: bool = False
    after_blank: bool = False


def plain(text: str) -> str:
    """Return the text with typographic quotation marks and apostrophes replaced by ASCII ones."""
    return text.translate(_APOSTROPHES)


_FENCE: Final = re.compile(r"^\s*(?:>\s*)?(```|~~~|\"\"\"|''')")
_QUOTE: Final = re.compile(r"^\s*(?:>|\|\s)")
_HEADER: Final = re.compile(
    r"^\s*\*{0,2}(from|to|cc|bcc|subject|date|sent|reply-to|message-id|von|an|betreff|gesendet|datum|de|para|asunto|fecha"
    r"|à|objet|envoyé|da|oggetto|inviato)\*{0,2}\s*:\*{0,2}\s*\S",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|forwarded message|begin forwarded|ursprüngliche nachricht|message d'origine)"
    r"|begin forwarded message|on .{6,80} wrote:\s*$|am .{6,80} schrieb.*:\s*$|le .{6,80} a écrit\s*:\s*$)",
    re.IGNORECASE,
)
_FORWARD_SUBJECT: Final = re.compile(r"^\s*(?:fwd?|wg|tr|rv)\s*:", re.IGNORECASE)
"""The subject of a forwarded mail whose other header lines are missing."""
_ADDRESS_LINE: Final = re.compile(r"^[^<>@:]{0,60}<[^<>@\s]+@[^<>@\s]+>\s*$")
_ATTACHED: Final = re.compile(r"^\[(?:attached|attachment|a file)\b", re.IGNORECASE)
_ATTACHED_ENDS: Final = re.compile(r"^\[end of the attached", re.IGNORECASE)
_SEPARATOR: Final = re.compile(r"^\s*(?:[-=_*~#]{3,}|-*\s*end of (?:the )?\w+\s*-*)\s*$", re.IGNORECASE)
_REPORTED: Final = re.compile(
    r"\b(?!(?:i|we)\b)\w+\s+(?:says?|said|writes?|wrote|claims?|claimed|told (?:me|us)|demands?|demanded|insists?"
    r"|insisted|asked|wants?|wanted|states?|stated|suggests?|suggested|requires?|required)\b|\baccording to\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(r"\b(?:if|unless|until|when|whenever|before|after)\b", re.IGNORECASE)
_INNER_QUOTE: Final = re.compile(r'"[^"]*"|(?<!\w)\'[^\']{12,}\'(?!\w)')


def own_words(text: str) -> str:
    """Return a line with ASCII quotation marks, and without the text between quotation marks or tags."""
    return INNER_TAG.sub('""', _INNER_QUOTE.sub('""', plain(text)))


def masked(text: str) -> str:
    """Return a line with spaces in place of the text between quotation marks or tags. The length stays the same."""
    return INNER_TAG.sub(_blank, _INNER_QUOTE.sub(_blank, plain(text)))


def _blank(found: re.Match[str]) -> str:
    return " " * len(found.group())


def is_reported(said: str) -> bool:
    """Return True if a sentence begins like reported speech of another person."""
    return _REPORTED.search(said) is not None and not _CONDITION.search(said)


def lines(text: str) -> list[VoicedLine]:
    """Return the lines of a user's message, each with its voice. A line that introduces a text is the user's own."""
    return list(_Reader(text).read())


class _Reader:
    """Reads a message line by line."""

    def __init__(self, text: str) -> None:
        self._raw = text.splitlines()
        self._header = _mail_header(self._raw)
        self._voice = Voice.UNCLEAR if is_letter(self._raw) else Voice.OWN
        self._margin = min((_indent(raw) for raw in self._raw if raw.strip()), default=0)
        self._fence = ""
        self._tag = ""
        self._last_ends = {end: index for index, raw in enumerate(self._raw) for end in tag_ends(raw)}
        """The index of the last line with each end tag."""
        self._begins_list = False
        """True if the line is a header of rules."""
        self._in_list = False
        """True if an indented line continues a list, or belongs to a header of rules."""
        self._attached = False
        self._open_quote = False
        self._blank = False
        self._begun = False
        self._introduced = False
        """True if the previous line introduces a text without a colon."""

    def read(self) -> Iterator[VoicedLine]:
        for index, raw in enumerate(self._raw):
            if not raw.strip():
                self._blank = True
                continue
            self._begins_list = False
            continues = self._in_list and self._is_indented(raw)
            yield from self._line(index, raw)
            self._in_list = self._begins_list or continues or _LISTS.match(raw) is not None
            self._blank, self._begun = False, True

    def _line(self, index: int, raw: str) -> Iterator[VoicedLine]:
        text, indented = " ".join(raw.split()), raw[:1].isspace()
        if self._is_marked(index, raw):
            yield VoicedLine(text, Voice.QUOTED, indented, self._blank)
            return
        voice = self._voice_of(index, raw)
        if voice is Voice.QUOTED:
            yield VoicedLine(text, voice, indented, self._blank)
            return
        if voice is Voice.OWN and self._is_indented(raw) and not self._in_list and not _LISTS.match(raw):
            yield VoicedLine(text, Voice.UNCLEAR, indented, self._blank)
            return
        head, rest, behind = _split(text)
        yield VoicedLine(head, Voice.UNCLEAR if self._quotes(text) else voice, indented, self._blank)
        if rest:
            yield VoicedLine(rest, behind)
        self._after(head, rest, behind)

    def _is_marked(self, index: int, raw: str) -> bool:
        """Return True if the line itself, or an open fence around it, marks it as a quotation."""
        if self._fence:
            if self._fence in raw:
                # A pasted text may itself contain the fence, and continue after it.
                self._fence, self._voice = "", max(self._voice, Voice.UNCLEAR, key=_ORDER.index)
            return True
        if self._attached:
            self._attached = _ATTACHED_ENDS.match(raw) is None
            return True
        if _ATTACHED.match(raw):
            self._attached = "was not fetched" not in raw
            return True
        if self._tag:
            if self._tag in tag_ends(raw):
                self._tag, self._voice = "", max(self._voice, Voice.UNCLEAR, key=_ORDER.index)
            return True
        if tag := quoting_tag(raw):
            return self._opens(f"</{tag}", index, raw)
        if mark := _FENCE.match(raw):
            self._fence = "" if raw.count(mark.group(1)) > 1 else mark.group(1)
            return True
        return _QUOTE.match(raw) is not None

    def _opens(self, end: str, index: int, raw: str) -> bool:
        """Record a tag at the beginning of a line. Return True if the message contains the end of the tag."""
        closed = end in tag_ends(raw)
        if not closed and self._last_ends.get(end, 0) <= index:
            self._voice = max(self._voice, Voice.UNCLEAR, key=_ORDER.index)
            return False
        self._tag = "" if closed else end
        if closed:
            self._voice = max(self._voice, Voice.UNCLEAR, key=_ORDER.index)
        return True

    def _is_indented(self, raw: str) -> bool:
        return _indent(raw) - self._margin >= _BLOCK

    def _voice_of(self, index: int, raw: str) -> Voice:
        if _SEPARATOR.match(raw):
            # After a separator, either the user continues or the next part of the pasted text follows.
            self._voice = Voice.OWN if self._voice is Voice.OWN else Voice.UNCLEAR
            return Voice.QUOTED
        forwarded = _FORWARDED.match(plain(raw)) or _FORWARD_SUBJECT.match(raw)
        if index == self._header or forwarded or self._begins_letter(raw):
            self._voice = Voice.QUOTED
        elif self._voice is Voice.OWN and (self._introduced or _ADDRESS_LINE.match(raw) or opens_own_tag(raw)):
            self._voice = Voice.UNCLEAR
        return self._voice

    def _begins_letter(self, raw: str) -> bool:
        return self._begun and self._blank and greets(raw.strip())

    def _quotes(self, text: str) -> bool:
        """Track a quotation that spans several lines. Return True if the line is part of a quotation."""
        opened = self._open_quote
        if plain(text).count('"') % 2:
            self._open_quote = not opened
        return opened or self._open_quote

    def _after(self, head: str, rest: str, behind: Voice) -> None:
        """Record what a line implies for the lines after it."""
        said = plain(head)
        self._begins_list = head.endswith(":") and (MODAL.search(said) or RULES.search(said)) is not None
        opened = _OPENS_FENCE.search(plain(rest or head))
        if opened:
            self._fence = opened.group(1)
        elif rest:
            self._voice = max(self._voice, behind, key=_ORDER.index)
        elif head.endswith(":") and (voice := _introduced(said)) is not Voice.OWN:
            self._voice = max(self._voice, voice, key=_ORDER.index)
        else:
            self._introduced = (introduces(said) or names_text(said)) and not MODAL.search(said)


_BLOCK: Final = 4
"""The minimum indentation of a block, relative to the message."""
_LISTS: Final = re.compile(r"^\s*(?:[-*•–+‣]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)])\s+")


def _indent(raw: str) -> int:
    expanded = raw.expandtabs(_BLOCK)
    return len(expanded) - len(expanded.lstrip())


_ORDER: Final = (Voice.OWN, Voice.UNCLEAR, Voice.QUOTED)
_OPENS_FENCE: Final = re.compile(r"(```|~~~|\"\"\"|''')(?!.*\1)")
_TWO_HEADERS: Final = 2
"""The minimum number of header lines of a mail. A single line that looks like a mail header may be a note."""


def _mail_header(raw: list[str]) -> int | None:
    """Return the index of the first line of a mail header."""
    for index, line in enumerate(raw):
        if (
            _HEADER.match(line)
            and sum(_HEADER.match(each) is not None for each in raw[index : index + 6]) >= _TWO_HEADERS
        ):
            return index
    return None


_COLON: Final = re.compile(r"^(.{3,160}?):\s+(\S.*)$")


def _split(text: str) -> tuple[str, str, Voice]:
    """Split "Summarise this: Dear all, …" after its colon, and return the voice of the rest."""
    found = _COLON.match(text)
    voice = _introduced(plain(found.group(1)) + ":") if found else Voice.OWN
    if found and voice is not Voice.OWN:
        return f"{found.group(1)}:", found.group(2), voice
    return text, "", Voice.OWN


def _introduced(said: str) -> Voice:
    """Return the voice of the text after a line that ends with a colon."""
    before = said.rstrip(": ")
    if MODAL.search(before) or (RULES.search(before) and (MINE.search(before) or not MAY_INTRODUCE.search(before))):
        return Voice.OWN
    if introduces(before):
        return Voice.QUOTED
    return Voice.UNCLEAR if MAY_INTRODUCE.search(before) else Voice.OWN
