"""Turns a completed task into a skill draft: name, description, original text and tools. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from fleetwright_agent.storage.learned_skills import SkillDraft

_DESCRIPTION: Final = 200
_TEMPLATE: Final = 4000
_NAME: Final = 64
_SUB_AGENT: Final = 32
"""The number of characters of the sub-agent's name that the skill's name includes."""
_WORDS: Final = 8
"""The number of words of the description that the name includes."""
_BEGINNING: Final = 4
"""The number of words that are usually enough to distinguish tasks."""
_TELLING: Final = 3
"""A name with fewer words gets a digest to make it unique."""
_DIGEST: Final = 8
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_HEADING: Final = re.compile(r"#+\s.*|\*\*.*\*\*|.*:|[\W_]*")


def draft_skill(sub_agent: str, task: str, tools: Sequence[str]) -> SkillDraft:
    """Return the draft of a skill. Tasks of one sub-agent that begin with the same words get the same name.

    The name also contains a digest of the task if it would otherwise be too short to distinguish tasks, or if letters
    are missing in it because they are not ASCII. Then only identical tasks get the same name.

    Args:
        task: The original text, redacted.
        tools: The distinct tools that ran.
    """
    plain = _beginning(task)
    description = plain if len(plain) <= _DESCRIPTION else f"{plain[: _DESCRIPTION - 1]}…"
    return SkillDraft(_name(sub_agent, plain, task), description, task.strip()[:_TEMPLATE], tuple(tools))


def _beginning(task: str) -> str:
    """Return the first sentences that are not headings, until they have at least four words."""
    lines = [line.strip() for line in task.splitlines()]
    spoken = [line for line in lines if not _HEADING.fullmatch(line)] or lines
    taken = ""
    for sentence in (sentence for line in spoken for sentence in _SENTENCE.split(line)):
        taken = f"{taken} {sentence}"
        if len(_WORD.findall(taken)) >= _BEGINNING:
            break
    return " ".join(taken.split())


def _name(sub_agent: str, beginning: str, task: str) -> str:
    letters = unicodedata.normalize("NFKD", beginning)
    is_whole = all(letter.isascii() or not letter.isalnum() for letter in letters)
    found = re.findall(r"[a-z0-9]+", letters.encode("ascii", "ignore").decode().lower())[:_WORDS]
    head = sub_agent[:_SUB_AGENT].rstrip("-")
    words = _fitting(found, _NAME - len(head) - 1 - _DIGEST)
    tells = len(words) >= _TELLING and len(words) >= min(_BEGINNING, len(found))
    if tells and is_whole and head == sub_agent:
        return "-".join([head, *words])
    return "-".join([head, *words, _digest(sub_agent, task)])


def _fitting(words: Sequence[str], room: int) -> Sequence[str]:
    """Return as many words as fit, each with a hyphen before it."""
    count = next((n for n in range(len(words)) if sum(len(word) + 1 for word in words[: n + 1]) > room), len(words))
    return words[:count]


def _digest(sub_agent: str, task: str) -> str:
    """Hash the whole task, ignoring whitespace and capitals."""
    same = " ".join(unicodedata.normalize("NFKC", task).casefold().split())
    return hashlib.sha256(f"{sub_agent}\n{same}".encode()).hexdigest()[:_DIGEST]
