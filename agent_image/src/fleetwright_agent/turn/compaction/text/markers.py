"""Recognises letters and tags in a message. Pure."""

import re
from typing import Final

_SALUTATION: Final = re.compile(
    r"^(?:dear|hi|hello|hey|good (?:morning|day|afternoon)|to whom|sehr geehrte\w*|liebe[rs]?|guten tag|bonjour|chers?"
    r"|chère|hola|estimad\w+|gentile|egregio)\b.{0,60}[,!:]?\s*$",
    re.IGNORECASE,
)
_LETTER: Final = re.compile(
    r"^\W*(?:dear|to whom it may concern|sehr geehrte\w*|liebe[rs]?|chers?|chère|estimad\w+|gentile|egregio)\b"
    r"(?!,? (?:ai|agent|assistant|bot|chatbot)\b)(?:.{0,60}?[,!:]|[^.]{0,60}$)",
    re.IGNORECASE,
)
"""The salutation of a letter. Few people address an agent in this way."""
_CLOSING: Final = re.compile(
    r"^\W*+(?:(?:kind|best|warm|warmest|many)?\s*regards|best wishes|sincerely|yours (?:sincerely|faithfully|truly)"
    r"|(?:mit )?(?:freundlichen|besten|herzlichen|viele|beste|liebe) grüße?n?n?|cordialement|bien à vous"
    r"|atentamente|saludos|cordiali saluti|distinti saluti)\b",
    re.IGNORECASE,
)
_FORMATTING: Final = (
    r"(?!/?(?:[abiqsu]|br|code|del|div|em|font|h[1-6]|hr|img|ins|kbd|li|mark|ol|p|pre|span|strong|su[bp]|ul)\b)"
)
_OWN_TAG: Final = (
    r"(?:\w+[_-])?(?:rules?|instructions?|constraints?|guidelines?|preferences?|requirements?|polic(?:y|ies)|system)"
)
"""The name of a tag around text that may be the user's own."""
_OPENS_TAG: Final = re.compile(rf"<{_FORMATTING}([a-z][\w-]*)(?:\s+[\w-]+\s*=[^<>]*)?>", re.IGNORECASE)
_END_TAG: Final = re.compile(r"</[a-z][\w-]*")
INNER_TAG: Final = re.compile(
    rf"<{_FORMATTING}(?!{_OWN_TAG}\b)([a-z][\w-]*)(?:\s[^<>]*)?>.{{0,1000}}?</\1\s*>", re.IGNORECASE
)
"""A pair of tags on one line, with the text between them."""


def greets(line: str) -> bool:
    """Return True if a line is a salutation or a greeting."""
    return _SALUTATION.match(line) is not None


def is_letter(raw: list[str]) -> bool:
    """Return True if a message begins with the salutation of a letter, or with a greeting and ends with a closing."""
    written = [line.strip() for line in raw if line.strip()]
    if not written:
        return False
    return _LETTER.match(written[0]) is not None or (greets(written[0]) and any(map(_CLOSING.match, written[1:])))


def tag_ends(raw: str) -> list[str]:
    """Return the end tags in a line, without their closing bracket and in small letters."""
    return _END_TAG.findall(raw.lower()) if "</" in raw else []


def quoting_tag(raw: str) -> str:
    """Return the name of the tag at the beginning of a line, if the text in it is a quotation."""
    tag = _OPENS_TAG.match(raw.strip())
    return "" if tag is None or opens_own_tag(raw) else tag.group(1).lower()


def opens_own_tag(raw: str) -> bool:
    """Return True if a line begins with a tag around text that may be the user's own."""
    tag = _OPENS_TAG.match(raw.strip())
    return tag is not None and re.fullmatch(_OWN_TAG, tag.group(1), re.IGNORECASE) is not None
