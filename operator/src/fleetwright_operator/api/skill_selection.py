"""Which Skills an agent has: those it names, and those that its selector finds. Pure."""

from collections.abc import Mapping
from typing import Any


def skill_names(agent: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """The named ones in their order, then the others by name. `labels` are those of every Skill of the namespace."""
    named = tuple(use["name"] for use in agent["spec"].get("skills", ()))
    return named + tuple(sorted(name for name in labels if name not in named and selects(agent, labels[name])))


def selects(agent: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether the agent's selector finds a Skill with these labels."""
    wanted = agent["spec"].get("skillSelector", {}).get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()
