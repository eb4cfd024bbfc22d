"""Marks text as data: what it quotes cannot end the mark, nor pretend to be another. Pure."""

import re
from typing import Final

SUMMARY: Final = "conversation_summary"
PINNED: Final = "pinned"
ARCHIVED: Final = "archived_messages"
REMEMBERED: Final = "remembered_facts"
LEARNED: Final = "learned_skills"
PRIOR: Final = "prior_sessions"
_NAMES: Final = f"{SUMMARY}|{PINNED}|{ARCHIVED}|{REMEMBERED}|{LEARNED}|{PRIOR}|skill_content"
_TAGS: Final = re.compile(rf"<(\s*/?\s*(?:{_NAMES}))", re.IGNORECASE)


def fence(tag: str, note: str, text: str) -> str:
    """The text between marks of its own; every mark inside it loses its meaning."""
    return f'<{tag} note="{note}">\n{harmless(text)}\n</{tag}>'


def harmless(text: str) -> str:
    """The text without anything that reads like one of our marks."""
    return _TAGS.sub(r"&lt;\1", text)


def fenced(tag: str, note: str, text: str) -> str:
    """Text as data: a closing tag inside it cannot end the fence."""
    safe = text.replace(f"</{tag}", f"<\\/{tag}")
    return f'<{tag} note="{note}">\n{safe}\n</{tag}>'
