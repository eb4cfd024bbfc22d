"""Decides which learned skills to keep: unused skills are pruned, and similar skills are merged. Pure.

Mounted skills are pinned: they are never pruned, and a learned skill similar to one of them is merged into it.
"""

from collections.abc import Mapping, Sequence

from fleetwright_agent.config.memory import SkillCuration
from fleetwright_agent.storage.learned_skills import LearnedSkill, Merge, Plan
from fleetwright_agent.storage.tokenizer import words


def strength(skill: LearnedSkill, *, now: float, half_life: float) -> float:
    """Return the strength of a skill: 1 right after a use, halved by each half-life (in seconds) without use."""
    return float(0.5 ** (max(0.0, now - skill.used) / half_life))


def plan_curation(
    skills: Sequence[LearnedSkill], *, pinned: Mapping[str, str], policy: SkillCuration, now: float
) -> Plan:
    """Return the plan. `pinned` maps the names of mounted skills to their descriptions."""
    standing = {name: _telling(name, description) for name, description in pinned.items()}
    kept: list[LearnedSkill] = []
    merged: list[Merge] = []
    pruned: list[LearnedSkill] = []
    # The strongest of several similar skills comes first and is kept.
    for skill in sorted(skills, key=lambda each: (-each.used, -each.uses, each.n)):
        about = _telling(skill.draft.name, skill.draft.description)
        if strength(skill, now=now, half_life=policy.half_life_seconds) < float(policy.prune_below):
            pruned.append(skill)
        elif (twin := _twin(skill, about, standing, float(policy.merge_above))) is not None:
            merged.append(Merge(skill, twin))
        else:
            kept.append(skill)
            standing[skill.draft.name] = about
    return Plan(tuple(kept), tuple(merged), tuple(pruned))


def _twin(
    skill: LearnedSkill, about: frozenset[str], standing: Mapping[str, frozenset[str]], least: float
) -> str | None:
    if skill.draft.name in standing:
        return skill.draft.name
    return next((name for name, other in standing.items() if _shared(about, other) >= least), None)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard index: the share of words that both sets contain."""
    whole = one | other
    return len(one & other) / len(whole) if whole else 0.0


def _telling(name: str, description: str) -> frozenset[str]:
    return frozenset(words(f"{name} {description}"))
