"""The contracts of facts, learned skills and erasures."""

import pytest
from tests.agent_image.storage.conformance.conftest import Restart, SettableClock

from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.facts import TooManyFacts
from fleetwright_agent.storage.learned_skills import Merge, Plan, SkillDraft
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.storage import Storage

HERE, THERE = Provenance("a", "c", "t"), Provenance("a", "d", "u")


def draft(name: str, text: str = "tie a knot") -> SkillDraft:
    return SkillDraft(name, "knots", text, ("rope__tie",))


async def test_fact_is_updated_by_the_same_text(storage: Storage, clock: SettableClock) -> None:
    n = await storage.facts.remember("a", "Ada likes tea", HERE, hot=False, most=1)
    clock.seconds += 1
    assert await storage.facts.remember("a", "Ada likes tea", THERE, hot=True, most=1) == n
    (fact,) = await storage.facts.facts("a")
    assert (fact.n, fact.hot, fact.source, fact.at) == (n, True, THERE, clock.now())
    with pytest.raises(TooManyFacts):
        await storage.facts.remember("a", "another", HERE, hot=False, most=1)


async def test_facts_are_found_by_words_and_owner(storage: Storage) -> None:
    for text in ("Ada likes tea", "Bob likes coffee with milk", "the rope is red"):
        await storage.facts.remember("a", text, HERE, hot=False, most=9)
    await storage.facts.remember("b", "coffee is bitter", HERE, hot=False, most=9)
    found = await storage.facts.recall("a", "coffee and milk", most=2)
    assert found[0].text == "Bob likes coffee with milk"
    assert all(fact.source.said_by == "a" for fact in found)
    assert await storage.facts.recall("a", "zebra", most=2) == []
    assert await storage.facts.recall("c", "coffee", most=2) == []


async def test_hot_facts_fit_into_the_room(storage: Storage, clock: SettableClock) -> None:
    for text in ("12345", "67890", "abcde"):
        clock.seconds += 1
        await storage.facts.remember("a", text, HERE, hot=text != "67890", most=9)
    assert [fact.text for fact in await storage.facts.hot("a", characters=9)] == ["abcde"]
    assert [fact.text for fact in await storage.facts.hot("a", characters=10)] == ["abcde", "12345"]


async def test_facts_are_forgotten_and_erased(storage: Storage) -> None:
    n = await storage.facts.remember("a", "one", HERE, hot=False, most=9)
    await storage.facts.remember("a", "two", HERE, hot=False, most=9)
    await storage.facts.remember("a", "three", THERE, hot=False, most=9)
    assert (await storage.facts.forget("a", n), await storage.facts.forget("a", n)) == (True, False)
    await storage.facts.erase("a", "c")
    assert [fact.text for fact in await storage.facts.facts("a")] == ["three"]
    await storage.facts.erase("a")
    assert await storage.facts.facts("a") == []


async def test_skill_is_replaced_by_the_newest_run(storage: Storage, clock: SettableClock) -> None:
    assert await storage.skills.learn("a", draft("knot"), HERE, most=2)
    clock.seconds += 1
    assert not await storage.skills.learn("a", draft("knot", "tie two knots"), THERE, most=2)
    (skill,) = await storage.skills.skills("a")
    assert (skill.draft.prompt_template, skill.source, skill.at) == ("tie two knots", THERE, clock.now())
    assert await storage.skills.skills("a", context_id="c") == []


async def test_learning_deletes_the_least_used_skill(storage: Storage, clock: SettableClock) -> None:
    for name in ("first", "second"):
        await storage.skills.learn("a", draft(name), HERE, most=2)
        clock.seconds += 1
    await storage.skills.told("a", (await storage.skills.skills("a"))[:1])
    clock.seconds += 1
    await storage.skills.learn("a", draft("third"), HERE, most=2)
    assert [(each.draft.name, each.uses) for each in await storage.skills.skills("a")] == [("first", 1), ("third", 0)]


async def test_skills_are_found_by_words_and_owner(storage: Storage) -> None:
    await storage.skills.learn("a", draft("knot"), HERE, most=9)
    await storage.skills.learn("a", draft("paint", "paint the wall"), HERE, most=9)
    found = await storage.skills.recall("a", "please paint my wall", most=1)
    assert [each.draft.name for each in found] == ["paint"]
    assert await storage.skills.recall("b", "paint", most=1) == []


@pytest.mark.parametrize(
    ("context", "left"),
    [
        pytest.param("", [], id="all of an owner"),
        pytest.param("c", ["paint"], id="one conversation"),
        pytest.param("e", ["knot", "paint"], id="a conversation without skills"),
    ],
)
async def test_skills_are_erased(storage: Storage, context: str, left: list[str]) -> None:
    await storage.skills.learn("a", draft("knot"), HERE, most=9)
    await storage.skills.learn("a", draft("paint", "paint the wall"), THERE, most=9)
    await storage.skills.learn("b", draft("knot"), HERE, most=9)
    await storage.skills.erase("a", context)
    assert [each.draft.name for each in await storage.skills.skills("a")] == left
    found = await storage.skills.recall("a", "tie a knot, or paint the wall", most=9)
    assert sorted(each.draft.name for each in found) == left
    assert [each.draft.name for each in await storage.skills.skills("b")] == ["knot"]
    assert len(storage.skills.owners()) == (2 if left else 1)


async def test_facts_and_skills_outlive_the_process(storage: Storage, restart: Restart) -> None:
    n = await storage.facts.remember("a", "Ada likes tea", HERE, hot=False, most=9)
    await storage.skills.learn("a", draft("knot"), HERE, most=9)
    after = (await restart()).storage
    assert await after.facts.remember("a", "Bob likes coffee", HERE, hot=False, most=9) != n
    assert [fact.text for fact in await after.facts.facts("a")] == ["Ada likes tea", "Bob likes coffee"]
    assert [each.draft.name for each in await after.skills.skills("a")] == ["knot"]


@pytest.mark.parametrize("dry_run", [pytest.param(True, id="a dry run"), pytest.param(False, id="a real run")])
async def test_curate_applies_the_plan_unless_dry(storage: Storage, dry_run: bool) -> None:
    for name in ("kept", "merged", "pruned"):
        await storage.skills.learn("a", draft(name), HERE, most=9)
    await storage.skills.told("a", (await storage.skills.skills("a"))[1:2])
    (key,) = storage.skills.owners()
    found = await storage.skills.curate(
        key, lambda skills: Plan((skills[0],), (Merge(skills[1], "kept"),), (skills[2],)), dry_run=dry_run
    )
    assert found is not None
    assert (found.owner, len(found.plan.merged)) == ("a", 1)
    left = [(each.draft.name, each.uses) for each in await storage.skills.skills("a")]
    assert left == ([("kept", 0), ("merged", 1), ("pruned", 0)] if dry_run else [("kept", 1)])


async def test_erasure_is_unfinished_until_its_receipt(storage: Storage) -> None:
    target = ErasureTarget("a", "c")
    begun = await storage.erasures.begin(target, asked_by="admin", at=5.0)
    assert (await storage.erasures.unfinished())[0].forks == ()
    await storage.erasures.counted(begun, {"tasks": 2}, ["d", "e"])
    (left,) = await storage.erasures.unfinished()
    assert (left.target, left.asked_by, left.at, left.found) == (target, "admin", 5.0, {"tasks": 2})
    assert left.forks == ("d", "e")
    assert await storage.erasures.last(target) is None
    await storage.erasures.finish(left, {"number": left.number})
    assert await storage.erasures.unfinished() == []
    assert await storage.erasures.last(target) == {"number": left.number}
    assert await storage.erasures.last(ErasureTarget("a")) is None


async def test_erasure_keeps_the_forks_of_earlier_attempts(storage: Storage) -> None:
    begun = await storage.erasures.begin(ErasureTarget("a", "c"), asked_by="admin", at=5.0)
    for forks in (["e"], [], ["d", "e"]):
        await storage.erasures.counted(begun, {}, forks)
    (left,) = await storage.erasures.unfinished()
    assert left.forks == ("d", "e")


async def test_file_of_the_stores_can_be_maintained(storage: Storage) -> None:
    await storage.erasures.begin(ErasureTarget("a"), asked_by="admin", at=5.0)
    await storage.file.check()
    await storage.file.shrink()
    await storage.file.scrub()
    assert storage.file.problem is None
    assert len(await storage.erasures.unfinished()) == 1
