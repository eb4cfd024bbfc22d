"""Retention of learned skills: by last use, by similarity to each other, and by similarity to mounted skills."""

import pytest

from fleetwright_agent.config.memory import SkillCuration
from fleetwright_agent.memory.curation import plan_curation, strength
from fleetwright_agent.storage.learned_skills import LearnedSkill, SkillDraft
from fleetwright_agent.storage.provenance import Provenance

DAY = 86_400.0
NOW = 1000 * DAY


def skill(name: str, description: str = "", *, idle: float = 0.0, uses: int = 0) -> LearnedSkill:
    """Args: `idle` is in days."""
    draft = SkillDraft(name, description or name.replace("-", " "), "t", ("tool",))
    return LearnedSkill(hash(name) % 1000, draft, Provenance("client:a", "c", "t"), 0.0, NOW - idle * DAY, uses)


@pytest.mark.parametrize(
    ("idle", "wanted"),
    [
        pytest.param(0, 1.0, id="just used"),
        pytest.param(90, 0.5, id="after one half-life"),
        pytest.param(180, 0.25, id="after two"),
        pytest.param(-5, 1.0, id="by a clock that was set back"),
    ],
)
def test_skill_strength_halves_every_ninety_days_of_disuse(idle, wanted):
    policy = SkillCuration()
    found = strength(skill("s", idle=idle), now=NOW, half_life=policy.half_life_seconds)
    assert found == pytest.approx(wanted)


EGGS, SOUP = "Boil eggs for the guests of the house", "Cook pumpkin soup with ginger"
NEAR = "Boil eggs for the guests of this house"


@pytest.mark.parametrize(
    ("skills", "pinned", "changes", "kept", "merged", "pruned"),
    [
        pytest.param([skill("a", EGGS), skill("b", SOUP)], {}, {}, "a b", {}, "", id="different ones stay"),
        pytest.param([skill("a", EGGS, idle=208)], {}, {}, "a", {}, "", id="208 idle days leave more than 0.2"),
        pytest.param([skill("a", EGGS, idle=210)], {}, {}, "", {}, "a", id="210 idle days leave less"),
        pytest.param(
            [skill("a", EGGS, idle=9000)], {}, {"pruneBelow": "0"}, "a", {}, "", id="nothing fades where that is off"
        ),
        pytest.param(
            [skill("a", EGGS, idle=40)], {}, {"halfLifeSeconds": 10 * 86400}, "", {}, "a", id="a shorter half-life"
        ),
        pytest.param(
            [skill("a", EGGS, idle=3), skill("b", NEAR)], {}, {}, "b", {"a": "b"}, "", id="of two alike the newer stays"
        ),
        pytest.param(
            [skill("a", EGGS, uses=3), skill("b", NEAR)],
            *({}, {}, "a", {"b": "a"}, ""),
            id="of two as new the one that was used more stays",
        ),
        pytest.param(
            [skill("a", EGGS), skill("b", NEAR)], {}, {"mergeAbove": "1"}, "a b", {}, "", id="only what is the same"
        ),
        pytest.param(
            [skill("a", EGGS)], {"eggs": NEAR}, {}, "", {"a": "eggs"}, "", id="a mounted skill stands for its like"
        ),
        pytest.param(
            [skill("eggs", SOUP)],
            {"eggs": EGGS},
            {},
            "",
            {"eggs": "eggs"},
            "",
            id="the name of a mounted one is its own",
        ),
        pytest.param([], {"eggs": EGGS}, {}, "", {}, "", id="mounted skills alone: nothing to do"),
    ],
)
def test_plan_curation_keeps_merges_and_prunes(skills, pinned, changes, kept, merged, pruned):
    found = plan_curation(skills, pinned=pinned, policy=SkillCuration.model_validate(changes), now=NOW)
    assert sorted(each.draft.name for each in found.kept) == kept.split()
    assert {merge.skill.draft.name: merge.into for merge in found.merged} == merged
    assert sorted(each.draft.name for each in found.pruned) == pruned.split()


def test_plan_curation_merges_similar_skills_into_one():
    found = plan_curation([skill(f"s{n}", EGGS, idle=n) for n in range(5)], pinned={}, policy=SkillCuration(), now=NOW)
    assert [each.draft.name for each in found.kept] == ["s0"]
    assert {merge.into for merge in found.merged} == {"s0"}
