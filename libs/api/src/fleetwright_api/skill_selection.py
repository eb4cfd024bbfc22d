"""Selects the Skills of an agent: the named ones and those that its selector matches. Pure."""

from collections.abc import Mapping
from typing import Any


def skill_names(agent: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the named skills in their order, then the selected ones by name.

    Args: `labels` are the labels of every Skill of the namespace.
    """
    named = tuple(use["name"] for use in agent["spec"].get("skills", ()))
    return named + tuple(sorted(name for name in labels if name not in named and selects(agent, labels[name])))


def selects(agent: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether the agent's selector matches these labels of a Skill."""
    wanted = agent["spec"].get("skillSelector", {}).get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()
