"""Expressions for the English sentences that introduce a text of another author, or the user's own rules. Pure."""

import re
from typing import Final

_DOCUMENT: Final = (
    r"(?:e-?mails?|mails?|messages?|letters?|contracts?|agreements?|articles?|documents?|docs?|texts?|passages?"
    r"|paragraphs?|transcripts?|logs?|output|reviews?|quotes?|posts?|pages?|notes?|reports?|tickets?|complaints?"
    r"|clauses?|terms|polic(?:y|ies)|threads?|conversations?|chats?|excerpts?|snippets?|content|code|files?"
    r"|press release|newsletter|memo|minutes|draft|story|invoice|offer|specification|manual|readme)"
)
_TASK: Final = (
    r"(?:summari[sz]e|translate|proof-?read|rephrase|paraphrase|rewrite|review|analy[sz]e|shorten|classify|correct|edit"
    r"|explain|extract|comment on|check|read|answer|reply to|respond to|have a look at|look at|improve|compare)"
)
_SAYS: Final = r"(?:says?|said|writes?|wrote|reads?|states?|stated|replied|answered|claims?|sent (?:me|us)(?: this)?)"
_INTRODUCES: Final = re.compile(
    rf"\b{_TASK}\b.{{0,40}}\b(?:this|these|following|below)\b"
    rf"|\b(?:following|attached|forwarded|pasted|copied)\b.{{0,30}}\b{_DOCUMENT}\b|\b{_DOCUMENT}\b.{{0,30}}\bbelow\b"
    rf"|\b{_SAYS}\s*$|^\W*(?:please )?(?:fyi|{_TASK}|see below|below|quote)(?:,? please)?\W*$"
    r"|\btl[;:,]?\s?dr\b",
    re.IGNORECASE,
)
_HERE: Final = re.compile(r"\bhere(?:'s| is| are| comes)\b", re.IGNORECASE)
_NAMES_TEXT: Final = re.compile(
    rf"\b{_TASK}\b.{{0,20}}\b(?:the|that) (?:\w+ )?(?:texts?|e-?mails?|mails?|messages?|letters?|articles?|passages?"
    r"|paragraphs?|transcripts?|threads?|conversations?|notes?)(?:,? (?:please|for me))?(?:\s*$|[.!;])",
    re.IGNORECASE,
)
"""A request about a text that follows. A request that says more about the text may refer to another one."""
MAY_INTRODUCE: Final = re.compile(rf"\b{_DOCUMENT}\b", re.IGNORECASE)
MODAL: Final = re.compile(
    r"\b(?:never|always|must|don't|do not|avoid|make sure|ensure|may not|cannot|can't|stop|under no circumstances)\b",
    re.IGNORECASE,
)
RULES: Final = re.compile(
    r"\b(?:rules?|instructions?|conditions?|constraints?|preferences?|guidelines?|requirements?|principles?|limits?)\b",
    re.IGNORECASE,
)
MINE: Final = re.compile(r"\b(?:my|our|follow|obey|keep to|stick to)\b", re.IGNORECASE)


def introduces(said: str) -> bool:
    """Return True if a sentence introduces a text of another author."""
    # An expression for both parts of "here is … the letter" would try each pair of them, which takes a minute for a
    # long line. Every document after a later "here" also follows the first one.
    here = _HERE.search(said)
    if here is not None and MAY_INTRODUCE.search(said, here.end()) is not None:
        return True
    return _INTRODUCES.search(said) is not None


def names_text(said: str) -> bool:
    """Return True if a sentence asks for something about a text that follows."""
    return _NAMES_TEXT.search(said) is not None
