"""Selects the Skills of an agent: the named ones and those that its selector matches. Pure."""

from collections.abc import Mapping

from fleetwright_api.spec.agent import AgentSpec


def skill_names(spec: AgentSpec, labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the named skills in their order, then the selected ones by name.

    Args: `labels` are the labels of every Skill of the namespace.
    """
    known = tuple(use.name for use in spec.skills)
    return known + tuple(sorted(name for name in labels if name not in known and selects(spec, labels[name])))


def selects(spec: AgentSpec, labels: Mapping[str, str]) -> bool:
    """Return whether the agent's selector matches these labels of a Skill."""
    return spec.skill_selector is not None and spec.skill_selector.matches(labels)
