"""Marks text as data with tags. The text can neither close its tag nor imitate another one. Pure."""

import re
from typing import Final

SUMMARY: Final = "conversation_summary"
PINNED: Final = "pinned"
ARCHIVED: Final = "archived_messages"
REMEMBERED: Final = "remembered_facts"
LEARNED: Final = "learned_skills"
PRIOR: Final = "prior_sessions"
WORKSPACE: Final = "workspace_overview"
_NAMES: Final = f"{SUMMARY}|{PINNED}|{ARCHIVED}|{REMEMBERED}|{LEARNED}|{PRIOR}|{WORKSPACE}|skill_content"
_TAGS: Final = re.compile(rf"<(\s*+/?\s*+(?:{_NAMES}))", re.IGNORECASE)


def fence(tag: str, note: str, text: str) -> str:
    """Wrap a text in the tag; every known tag inside it is escaped."""
    return f'<{tag} note="{note}">\n{harmless(text)}\n</{tag}>'


def harmless(text: str) -> str:
    """Escape everything in the text that looks like one of the known tags."""
    return _TAGS.sub(r"&lt;\1", text)


def fenced(tag: str, note: str, text: str) -> str:
    """Wrap a text as data; a closing tag inside it is escaped."""
    safe = text.replace(f"</{tag}", f"<\\/{tag}")
    return f'<{tag} note="{note}">\n{safe}\n</{tag}>'
