"""What is written down of a task that was done: a name, what it is about, how it was asked, with which tools. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from fleetwright_agent.memory.learned import SkillDraft

_DESCRIPTION: Final = 200
_TEMPLATE: Final = 4000
_NAME: Final = 64
_WORDS: Final = 8
"""Of the description, in the name."""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s|\n")


def drafted(sub_agent: str, task: str, tools: Sequence[str]) -> SkillDraft:
    """Tasks that begin with the same words, of the same sub-agent, have one name: they are one skill.

    Args:
        task: As it was given, without secrets.
        tools: That ran, each once.
    """
    plain = " ".join(_SENTENCE.split(task.strip(), maxsplit=1)[0].split())
    description = plain if len(plain) <= _DESCRIPTION else f"{plain[: _DESCRIPTION - 1]}…"
    return SkillDraft(_name(sub_agent, plain), description, task.strip()[:_TEMPLATE], tuple(tools))


def _name(sub_agent: str, description: str) -> str:
    letters = unicodedata.normalize("NFKD", description).encode("ascii", "ignore").decode().lower()
    found = re.findall(r"[a-z0-9]+", letters)[:_WORDS] or [hashlib.sha256(description.encode()).hexdigest()[:8]]
    return "-".join([sub_agent, *found])[:_NAME].rstrip("-")
