"""Restricts a turn to the tools that its skills allow, once a skill with `allowed-tools` is loaded.

The restriction lasts until the caller's next message. It is derived from the conversation, so it survives a restart.
Several such skills allow the union of their tools. A skill without `allowed-tools` changes nothing, and a skill with an
unreadable file allows no tool. Tools that only read skills, search for tools or ask the caller are always allowed.
"""

from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from langchain_core.messages import AnyMessage

from fleetwright_agent.tools.name_sanitizer import offered_name, offered_pattern
from fleetwright_agent.tools.port import ToolBlocked
from fleetwright_agent.turn.rounds import loaded_skills

_FIELD: Final = "allowed-tools"
_OPEN: Final = frozenset({"load_skill", "read_skill_file", "search_tools", "ask_human", "request_user_input"})


class SkillFence:
    def __init__(self, read_skill: Callable[[str], str | None], *, mounted: Collection[str]) -> None:
        """Args:
        read_skill: Returns the SKILL.md of a skill; None if it cannot be read.
        mounted: The names of the existing skills. A loaded skill that no longer exists restricts nothing.
        """
        self._read = read_skill
        self._mounted = frozenset(mounted)

    def refusal(self, tool: str, messages: Sequence[AnyMessage]) -> ToolBlocked | None:
        if tool in _OPEN:
            return None
        found = {name: self._allowed(name) for name in loaded_skills(messages)}
        fences = {name: allowed for name, allowed in found.items() if allowed is not None}
        if not fences or any(_fits(tool, allowed) for allowed in fences.values()):
            return None
        allowed = sorted({pattern for patterns in fences.values() for pattern in patterns})
        skills = ", ".join(sorted(fences))
        return ToolBlocked(
            f"{tool} is not allowed while the skill {skills} is followed; it allows {', '.join(allowed) or 'no tool'}"
        )

    def _allowed(self, name: str) -> frozenset[str] | None:
        if name not in self._mounted:
            return None
        text = self._read(name)
        return frozenset() if text is None else allowed_tools(text)


def _fits(tool: str, allowed: Collection[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in allowed)


def allowed_tools(document: str) -> frozenset[str] | None:
    """The tool names and patterns that a SKILL.md allows; None if it has no `allowed-tools`.

    `orders/look_up_order` becomes `orders__look_up_order`. An unreadable field allows no tool (fail closed).
    """
    # Imported lazily: only agents with skills need it.
    import yaml

    lines = document.splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    try:
        end = next(number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---")
        fields: Any = yaml.safe_load("\n".join(lines[1:end]))
    except (StopIteration, yaml.YAMLError):
        return frozenset()
    if not isinstance(fields, dict) or fields.get(_FIELD) is None:
        return None
    return frozenset(_called(name) for name in str(fields[_FIELD]).split())


def _called(name: str) -> str:
    server, slash, tool = name.partition("/")
    whole = f"{server}__{tool}" if slash else name
    return offered_pattern(whole) if "*" in whole else offered_name(whole)
