"""Finds the standing rules in a message of a user, and the sentences that withdraw earlier rules.

This module is pure. It reads English; the summariser proposes rules in other languages (`accepted`). A rule is a whole
line, or a list with its header, verbatim, because part of a sentence may mean the opposite.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.turn.compaction.text.orders import is_order
from fleetwright_agent.turn.compaction.text.sentences import excerpt
from fleetwright_agent.turn.compaction.text.voice import Voice, VoicedLine, is_reported, lines, masked, own_words, plain

_RULE: Final = re.compile(
    r"\b(?:always|never|must(?:n't)?|do not|don't|dont"
    r"|only (?:if|when|with|after|before|by|via|through|to|from|use|between|until|unless|ever|once|on|in|for)"
    r"|(?:no|not) more than|at most|at least|no (?:less|fewer|later|earlier) than|up to a maximum|maximum of"
    r"|(?:under|in|on) no (?:circumstances|case|account)"
    r"|without (?:\w+ ){0,3}(?:approval|consent|permission|asking|agreement)"
    r"|(?:not|n't|only) (?:be )?(?:allowed|permitted)|forbidden|prohibited|not acceptable|off[- ]limits"
    r"|from now on|going forward|may not|may only|(?<!\bi )(?:can ?not|can't)"
    r"|(?:should|shall|ought|will|may|can) (?:not|never|only)"
    r"|shouldn't|shan't|shall|(?:you|everyone|everybody|everything|nobody|it|they|all) (?:have|has) to"
    r"|needs? to be|needs? (?:my|our)|(?:is|are) (?:required|mandatory|taboo)|refrain from|make sure|be sure to|ensure"
    r"|(?<!\bto )avoid|unless (?:i|we|you)\b|until (?:i|we) (?:say|tell|confirm|agree)"
    r"|(?:ask|tell|check with|consult|inform|warn) (?:me|us) (?:first|before)"
    r"|(?:nobody|no one|nothing) (?:may|can|shall)"
    r"|every time|each time|whenever|stick to|keep to|insist on|remember (?:to|that)|\w+ only with)\b"
    r"|(?:^|[.;:!,]\s+|\bplease |\band |\bthen )stop\b|(?:^|[.;:!]\s+|\bplease )(?:no |refuse\b)",
    re.IGNORECASE,
)
_TAG: Final = re.compile(
    # White space is tried once only, from its beginning.
    r"(?:,|(?<!\s))\s*+\b(?:ok|okay|right|please|understood|got it|will you|alright|clear)\s*\?$",
    re.IGNORECASE,
)
_POLITE: Final = re.compile(
    r"^\W*(?:can|could|would|will) you (?:please )?(?:always|never|not|stop|avoid|only|make sure|ensure)\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_WITHDRAWAL: Final = re.compile(
    r"\byou (?:may|can) (?:now|again)\b|\b(?:may|can) (?:now|again)\b|\b(?:now|again) allowed\b"
    r"|\ballowed (?:now|again)\b"
    r"|\b(?:is|are|it's) (?:ok|okay|fine|allowed|all right|permitted) (?:now|again)\b"
    r"|\b(?:is|are) now (?:ok|okay|fine|allowed|permitted)\b"
    r"|\b(?:may|can|could|should)\b(?!'t| ?not| never| only).{0,120}\bafter all\b"
    r"|\b(?:is|are|it's) (?:ok|okay|fine|allowed|all right|permitted|possible|acceptable)\b.{0,120}"
    r"\b(?:after all|from (?:today|now|tomorrow)|as of|starting|again)\b"
    r"|(?<!n't )(?<!not )(?<!never )\b(?:forget|ignore|disregard|drop|scrap|cancel|lift|withdraw"
    r"|revoke|scratch|remove|skip)"
    r" (?:about )?(?:the|my|our|that|those|this|what|everything|all)\b|\bnever ?mind\b"
    r"|\b(?:rule|restriction|limit|ban|requirement|instruction|condition)\b.{0,60}\b(?:no longer|not)"
    r" (?:appl|hold|valid|needed)"
    r"|\b(?:rule|restriction|limit|ban|requirement|instruction|condition)\b.{0,60}\b(?:does(?:n't| not) (?:apply|hold)"
    r"|is (?:off|over|gone|void|lifted|withdrawn|cancelled|dropped|obsolete))"
    r"|\bno longer (?:have|need|necessary|required|forbidden|prohibited|applies|apply|must|valid)\b"
    r"|\b(?:don't|do not|needn't|need not) (?:need to |have to )?.{0,80}\b(?:any ?more|any longer)\b"
    r"|\b(?:i|we) (?:take back|withdraw|revoke|lift|retract)\b|\bchanged my mind about\b"
    r"|\bfeel free to\b.{0,80}\b(?:again|now)\b"
    r"|\byou (?:don't|do not|needn't|need not) (?:need to|have to|always|ask)\b",
    re.IGNORECASE,
)
_NAMES_RULE: Final = re.compile(
    r"\b(?:rules?|restriction|limit|ban|requirement|instruction|condition|what i (?:said|told|wrote|asked))\b",
    re.IGNORECASE,
)
_RULE_HEADER: Final = re.compile(
    r"\b(?:rules?|instructions|conditions|constraints|preferences|guidelines|requirements|taboos?|dos|don'ts)\b",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"^\s*(?:[-*•–+‣]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)])\s+")
_FIRST: Final = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
_PERSONAL: Final = re.compile(r"\b(?:i|me|my|we|us|our|you|your)\b", re.IGNORECASE)
_IMPERATIVE: Final = re.compile(
    r"^\W*(?:please|never|always|don't|do not|only|avoid|stop|make sure|ensure|no|under no|from now on|keep|ask|use"
    r"|be|cc"
    r"|answer|write|send|ship|call|check|tell|remember|refrain|also|and|but)\b",
    re.IGNORECASE,
)
_LONG_MESSAGE: Final = 600
"""Characters of a message. In a longer one, a rule that addresses neither user nor agent is probably pasted."""
_PASTED: Final = 1200
"""Characters of a message. In a longer one, only short orders and lines in the first person are clearly the user's."""
_SHORT_RULE: Final = 240
_LONGEST: Final = 800
"""The maximum characters of a line or a list in one rule."""
_AROUND: Final = 300
"""The minimum characters on both sides of a rule in an excerpt, unless the line ends there."""
_WRAPPED: Final = 60
_BEGINNING: Final = 40
_SHORTEST_PROPOSAL: Final = 4


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, or one withdrawal of a rule, verbatim."""

    text: str
    voice: Voice = Voice.OWN
    personal: bool = True
    withdraws: bool = False


def beginning(text: str) -> str:
    """Return the first words of a message, which identify the message to the model."""
    first = " ".join(text.split())
    return first if len(first) <= _BEGINNING else f"{first[:_BEGINNING].rsplit(' ', 1)[0]} …"


def rules_of(text: str) -> list[Rule]:
    """Return the rules and withdrawals of one message of a user, in order. Quoted text has none."""
    return [_judged(part, text) for part in _parts(lines(text))]


def orders_of(text: str) -> list[str]:
    """Return the orders and permissions in a message of a user that are certainly the user's own words."""
    if len(text) > _PASTED:
        return []
    said = [line.text for line in lines(text) if line.voice is Voice.OWN]
    return [each for each in said if is_order(each) and not is_rule(each) and not is_reported(own_words(each))]


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    voice: Voice
    withdraws: bool = False


def _judged(part: _Part, message: str) -> Rule:
    """Return the rule, with the voice determined from the whole message."""
    said = own_words(part.text)
    personal = _PERSONAL.search(said) is not None or _IMPERATIVE.match(said) is not None
    voice = part.voice
    if len(message) > _LONG_MESSAGE and not personal:
        voice = Voice.UNCLEAR
    if len(message) > _PASTED and not _is_clearly_own(said):
        voice = Voice.UNCLEAR
    modal = _RULE.search(said)
    if modal and is_reported(said[: modal.start()]):
        voice = Voice.UNCLEAR
    return Rule(part.text, voice, personal, part.withdraws and voice is Voice.OWN)


def _is_clearly_own(said: str) -> bool:
    return len(said) <= _SHORT_RULE and (_FIRST.search(said) is not None or _IMPERATIVE.match(said) is not None)


def _parts(read: Sequence[VoicedLine]) -> Iterator[_Part]:
    place, header = 0, ""
    while place < len(read):
        line = read[place]
        if line.voice is Voice.QUOTED:
            place, header = place + 1, ""
            continue
        text, place = _unwrapped(read, place)
        items = _items(read, place) if text.endswith(":") else 0
        if items and (is_rule(text.rstrip(":")) or _RULE_HEADER.search(plain(text))):
            yield from _listed(text, read[place : place + items])
            place += items
            continue
        header = text if text.endswith(":") else header if _ITEM.match(text) else ""
        under = f"{header}\n{text}" if header and header != text else text
        if is_withdrawal(text):
            yield _Part(under, line.voice, withdraws=True)
        elif is_rule(text):
            yield from (_Part(each if each != text else under, line.voice) for each in _excerpts(text))


def _unwrapped(read: Sequence[VoicedLine], place: int) -> tuple[str, int]:
    """Join a wrapped line with its continuation lines, and return it with the index of the next line."""
    text, voice = read[place].text, read[place].voice
    last = text
    while (place := place + 1) < len(read):
        line = read[place]
        ended = last[-1:] in ".!?:;" or line.after_blank or line.voice is not voice or _ITEM.match(line.text)
        if ended or not (line.text[:1].islower() or len(last) >= _WRAPPED):
            break
        text, last = f"{text} {line.text}", line.text
    return text, place


def _items(read: Sequence[VoicedLine], place: int) -> int:
    """Return how many lines from this index on form the list under the header before them."""
    count = 0
    marked = place < len(read) and _ITEM.match(read[place].text) is not None
    for line in read[place:]:
        is_item = _ITEM.match(line.text) is not None or (marked and line.indented)
        if line.voice is Voice.QUOTED or not (is_item if marked else not line.after_blank or not count):
            break
        count += 1
    return count


def _listed(header: str, items: Sequence[VoicedLine]) -> Iterator[_Part]:
    """Yield a header with its list; a long list is split into several parts, each with the header."""
    part: list[str] = []
    for line in items:
        if part and len(header) + sum(map(len, part)) + len(line.text) > _LONGEST:
            yield _Part("\n".join((header, *part)), items[0].voice)
            part = []
        part.append(line.text)
    yield _Part("\n".join((header, *part)), items[0].voice)


def is_rule(text: str) -> bool:
    """Return True if a line states what must always or never be done. A question never does."""
    said = own_words(text)
    return any(_RULE.search(_TAG.sub(".", each)) for each in _SENTENCE.split(said) if not _is_question(each))


def _is_question(said: str) -> bool:
    return said.endswith("?") and not _TAG.search(said) and not _POLITE.match(said)


def is_withdrawal(text: str) -> bool:
    """Return True if a line withdraws an earlier rule."""
    return _WITHDRAWAL.search(own_words(text)) is not None and not text.endswith("?")


def names_rule(text: str) -> bool:
    """Return True if a withdrawal says that it refers to a rule."""
    return _NAMES_RULE.search(plain(text)) is not None


_REVISES: Final = re.compile(
    r"\b(?:correction|instead|from now on|as of|actually|updated?|revised|changed|make that|rather than|no longer)\b",
    re.IGNORECASE,
)


def revises(text: str) -> bool:
    """Return True if a rule says that it replaces an earlier one."""
    return _REVISES.search(own_words(text)) is not None


def _excerpts(text: str) -> list[str]:
    """Return the line. If it is very long, return an excerpt around each rule, cut between words."""
    if len(text) <= _LONGEST:
        return [text]
    found: list[str] = []
    until = 0
    for rule in _RULE.finditer(masked(text)):
        if rule.end() + _AROUND <= until or until >= len(text):
            continue
        piece, until = excerpt(text, rule.start() - _AROUND, _LONGEST)
        found.append(piece)
    return [each for each in found if is_rule(each)] or [excerpt(text, 0, _LONGEST)[0]]


def accepted(proposals: Sequence[str], message: str) -> list[Rule]:
    """Return the lines of a user's message that a summariser proposed as rules.

    A proposal counts only if the message contains it verbatim. The whole line becomes the rule, because part of a
    line may mean the opposite. A line that is quoted, or that is a question, is never accepted.
    """
    said = [line for line in lines(message) if line.voice is not Voice.QUOTED]
    found: dict[str, Rule] = {}
    for proposal in (" ".join(each.split()).strip(' -*•"“”„«»') for each in proposals):
        if len(proposal) < _SHORTEST_PROPOSAL:
            continue
        for line in said:
            if proposal in line.text and not line.text.endswith(("?", "？")):
                clear = line.voice is Voice.OWN and len(message) <= _PASTED
                found[line.text] = Rule(line.text, Voice.OWN if clear else Voice.UNCLEAR)
    return list(found.values())
