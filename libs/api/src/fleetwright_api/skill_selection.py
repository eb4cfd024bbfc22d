"""Selects the Skills of an agent: those that its spec names, and those that its selector matches. Pure."""

from collections.abc import Mapping

from fleetwright_api.spec.agent import AgentSpec


def skill_names(spec: AgentSpec, labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the skills that the spec names, in their order, and then the other selected skills, sorted by name.

    Args: `labels` are the labels of every Skill of the namespace.
    """
    known = tuple(use.name for use in spec.skills)
    return known + tuple(sorted(name for name in labels if name not in known and selects(spec, labels[name])))


def selects(spec: AgentSpec, labels: Mapping[str, str]) -> bool:
    """Return whether the agent's selector matches these labels of a Skill."""
    return spec.skill_selector is not None and spec.skill_selector.matches(labels)
