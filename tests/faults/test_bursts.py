"""O15, O18: bursts of many objects, one of which is invalid."""

import asyncio

import pytest
from e2e.faults import flows
from e2e.faults.plan import Fault
from tests.support.machine import ceiling

MANY = 100


@pytest.mark.exhaustive
async def test_o15_secret_shared_by_100_agents_rolls_out_none(stand):
    """O15: the Secret is rotated, deleted, restored."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.client.apply(flows.key(space, "one"))
    names = [f"poet-{number:03}" for number in range(MANY)]
    await asyncio.gather(*(stand.agent(space, name, model=flows.MODEL) for name in names))
    pods = lambda: [body for (kind, _), body in stand.cache.objects(space).items() if kind == "Pod"]  # noqa: E731

    def told() -> set[str]:
        return {body["metadata"].get("annotations", {}).get("fleetwright.dev/refresh", "") for body in pods()}

    def all_ready() -> bool:
        return len(pods()) == MANY and "" not in told() and not any("." in value for value in told()) and all(
            stand.condition("Agent", space, name, "Ready").get("status") == "True" for name in names
        )  # fmt: skip

    await stand.until(space, all_ready, "a hundred agents are ready")
    await stand.quiet(space)
    first, generations = told(), _generations(stand, space)
    writes = operator.plan.writes[space].copy()

    await stand.client.apply(flows.key(space, "two"))
    await stand.until(
        space, lambda: not told() & first and not any("." in value for value in told()), "every pod is told twice"
    )
    await stand.quiet(space)
    assert _generations(stand, space) == generations, "no agent is rolled out"
    assert (operator.plan.writes[space] - writes).total() == 2 * MANY, "two writes for each pod, and no other"

    await stand.client.delete("Secret", space, "key")

    def all_miss_it() -> bool:
        found = (stand.condition("Agent", space, name, "ReferencesResolved") for name in names)
        return all(condition.get("status") == "False" for condition in found)

    await stand.until(space, all_miss_it, "everybody says what is missing")
    await stand.client.apply(flows.key(space, "two"))
    await stand.until(space, all_ready, "all are well again")
    assert _generations(stand, space) == generations


async def test_o15_skill_shared_by_30_agents_rolls_out_each_once(stand):
    """O15: one new revision for each agent."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.client.apply(flows.skill("haiku", space, "Three lines."))
    names = [f"poet-{number:03}" for number in range(30)]
    await asyncio.gather(*(stand.agent(space, name, skills=[{"name": "haiku"}]) for name in names))
    await stand.wait_until_programmed(space, *names)
    await stand.quiet(space)
    before = _generations(stand, space)
    written = operator.plan.writes[space].copy()
    await stand.client.apply(flows.skill("haiku", space, "Five, seven, five."))

    def rolled() -> bool:
        return all(now == before[name] + 1 for name, now in _generations(stand, space).items())

    await stand.until(space, rolled, "one more generation for each")
    await stand.quiet(space)
    assert rolled()
    fresh = operator.plan.writes[space] - written
    made = sum(number for name, number in fresh.items() if name.startswith("apply deployments/"))
    assert made == len(names)


@pytest.mark.exhaustive
@pytest.mark.timeout(12 * ceiling())  # Each of its waits has a ceiling.
async def test_o18_failing_agent_in_a_burst_does_not_delay_the_others(stand):
    """O18: 200 agents are created, edited and deleted at once.

    The API server answers one Deployment always with an error.
    """
    space = await stand.space()
    operator = await stand.operator(space)
    operator.plan.outage = lambda _, name: Fault.INTERNAL if name == "apply deployments/poison" else None
    names = [f"poet-{number:03}" for number in range(199)]
    await asyncio.gather(*(stand.agent(space, name) for name in ("poison", *names)))
    await stand.wait_until_programmed(space, *names)
    await asyncio.gather(*(stand.agent(space, name, instructions="Help well.") for name in names))
    await stand.wait_until_programmed(space, *names)
    await asyncio.gather(*(stand.client.delete("Agent", space, name) for name in names))
    await stand.until(space, lambda: _generations(stand, space).keys() <= {"poison"}, "all went")
    tries = operator.plan.writes[space]["apply deployments/poison"]
    assert tries >= 3, "it is retried"
    operator.plan.outage = lambda _namespace, _name: None
    await stand.wait_until_programmed(space, "poison")
    passes = await operator.passes()
    assert passes <= 40 * 200, "a bounded number of reconciles for each"


def _generations(stand, space: str) -> dict[str, int]:
    objects = stand.cache.objects(space).items()
    return {name: body["metadata"]["generation"] for (kind, name), body in objects if kind == "Deployment"}
