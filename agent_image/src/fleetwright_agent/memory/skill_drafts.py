"""What is written down of a task that was done: a name, what it is about, how it was asked, with which tools. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from fleetwright_agent.storage.learned_skill import SkillDraft

_DESCRIPTION: Final = 200
_TEMPLATE: Final = 4000
_NAME: Final = 64
_SUB_AGENT: Final = 32
"""Characters of its name, in that of the skill."""
_WORDS: Final = 8
"""Of the description, in the name."""
_BEGINNING: Final = 4
"""Words that tell one task from another, where a task has as many."""
_TELLING: Final = 3
"""With fewer words a name needs a digest to tell it."""
_DIGEST: Final = 8
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_HEADING: Final = re.compile(r"#+\s.*|\*\*.*\*\*|.*:|[\W_]*")


def drafted(sub_agent: str, task: str, tools: Sequence[str]) -> SkillDraft:
    """Tasks that begin with the same words, of the same sub-agent, have one name: they are one skill.

    Where the words do not tell one task from another, only the same task has the same name.

    Args:
        task: As it was given, without secrets.
        tools: That ran, each once.
    """
    plain = _beginning(task)
    description = plain if len(plain) <= _DESCRIPTION else f"{plain[: _DESCRIPTION - 1]}…"
    return SkillDraft(_name(sub_agent, plain, task), description, task.strip()[:_TEMPLATE], tuple(tools))


def _beginning(task: str) -> str:
    """Its first sentences that are no headings, as many as say something."""
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
    """As many as have room, each with a hyphen before it."""
    count = next((n for n in range(len(words)) if sum(len(word) + 1 for word in words[: n + 1]) > room), len(words))
    return words[:count]


def _digest(sub_agent: str, task: str) -> str:
    """Of the whole task, however it is spaced and whatever is in capitals."""
    same = " ".join(unicodedata.normalize("NFKC", task).casefold().split())
    return hashlib.sha256(f"{sub_agent}\n{same}".encode()).hexdigest()[:_DIGEST]
