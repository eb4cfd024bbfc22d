"""A change of many agents replaces a few at a time. The waiting agents are still reconciled."""

import asyncio
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_operator.rollout.slot_limiter import LONGEST_SECONDS, WAITING_SECONDS


class Slow:
    """The in-memory API with a delay for each write."""

    def __init__(self, api, seconds):
        self._api = api
        self.seconds = seconds

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def apply(self, *arguments, **options):
        await asyncio.sleep(self.seconds)
        return await self._api.apply(*arguments, **options)

    async def delete(self, *arguments, **options):
        await asyncio.sleep(self.seconds)
        return await self._api.delete(*arguments, **options)


def tried(api):
    """Return the agents that have a preflight."""
    return [
        pod["metadata"]["labels"][names.NAME]
        for pod in api.all("Pod")
        if pod["metadata"]["labels"].get(names.COMPONENT) == names.PROBE
    ]


def replaced(api):
    """Return the agents with a preflight, and those whose changed Deployment has not rolled out."""
    switched = [
        body["metadata"]["name"]
        for body in api.all("Deployment")
        if body["status"].get("observedGeneration", 0) < body["metadata"]["generation"]
    ]
    return {*tried(api), *switched}


def prove(api, agent, code=0):
    (pod,) = [pod for pod in api.all("Pod") if pod["metadata"]["labels"].get("fleetwright.dev/probed-agent") == agent]
    container = {"name": "agent", "state": {"terminated": {"exitCode": code}}}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
    api.set_status("Pod", pod["metadata"]["name"], status)


def passes(world):
    counted = (sample for metric in world.manager.metrics.reconciles.collect() for sample in metric.samples)
    return sum(sample.value for sample in counted if sample.name.endswith("_total"))


@pytest.fixture
async def fleet(make_world, api, objects, settings):
    """Return a function that starts that many serving agents, and returns the world and their names."""
    worlds = []

    async def make(count, *, rollouts, seconds=0.0):
        world = make_world(Slow(api, seconds), replace(settings, rollouts=rollouts))
        worlds.append(world)
        agents = [f"a{number:02}" for number in range(count)]
        for name in agents:
            api.put(objects.agent(name, skills=[{"name": "haiku"}]))
        api.put(objects.skill())
        await world.start()
        await world.until(lambda: len(api.all("Deployment")) == count, seconds=20)
        await world.settle()
        for name in agents:
            api.roll_out(name)
        await world.settle()
        assert all(world.conditions("Agent", name)["Ready"][0] == "True" for name in agents)
        return world, agents

    yield make
    for world in worlds:
        await world.stop()


@pytest.mark.parametrize(("count", "rollouts"), [(12, 1), (8, 3)])
async def test_rollout_limiter_never_exceeds_the_limit(fleet, api, objects, count, rollouts):
    world, agents = await fleet(count, rollouts=rollouts, seconds=0.02)
    most = 0

    def look(event, kind, body):
        nonlocal most
        most = max(most, len(replaced(api)))

    api.listeners.append(look)
    api.put(objects.skill(text="Other lines."))
    done = []
    while len(done) < count:
        await world.until(lambda: bool(tried(api)))
        agent = tried(api)[0]
        prove(api, agent)
        await world.until(lambda one=agent: one not in tried(api))
        await asyncio.sleep(0.05)
        assert len(replaced(api)) <= rollouts, "the agent after its preflight does not serve yet"
        api.roll_out(agent)
        done.append(agent)
    await world.settle()
    assert most == rollouts
    assert sorted(done) == agents
    assert all(world.conditions("Agent", name)["Ready"][0] == "True" for name in agents)


async def test_rollout_limiter_reports_waiting_without_reconciling(fleet, api, objects):
    world, agents = await fleet(12, rollouts=2)
    api.put(objects.skill(text="Other lines."))
    await world.settle()
    waiting = [name for name in agents if name not in tried(api)]
    assert len(waiting) == 10
    for name in waiting:
        status, reason, message = world.conditions("Agent", name)["Programmed"]
        assert (status, reason) == ("False", "Preflight")
        assert "waits for other rollouts to finish: 2; revision" in message
        assert message.endswith("keeps serving")
        assert world.conditions("Agent", name)["Ready"][0] == "False"
    before = passes(world)
    await asyncio.sleep(2)
    assert passes(world) == before
    assert WAITING_SECONDS - 10 < world.soonest() <= WAITING_SECONDS

    first = tried(api)[0]
    prove(api, first, code=1)
    await world.until(lambda: len(set(tried(api)) - {first}) == 2, seconds=1)
    await world.settle()
    assert passes(world) - before < 15, "only one waiting agent was reconciled"


async def test_rollout_limiter_sets_generation_of_a_waiting_agent(fleet, api, objects):
    world, (first, second) = await fleet(2, rollouts=1)
    api.put(objects.agent(first, instructions="Other."))
    await world.settle()
    api.put(objects.agent(second, instructions="Other."))
    await world.settle()
    assert tried(api) == [first]
    found = api.find("Agent", second)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] > 1
    conditions = {each["type"]: each for each in found["status"]["conditions"]}
    assert conditions["Ready"]["status"] == conditions["Programmed"]["status"] == "False"
    assert conditions["Ready"]["observedGeneration"] == found["metadata"]["generation"]


async def test_rollout_limiter_keeps_the_order_if_a_pod_fails(fleet, api, objects):
    world, (first, second) = await fleet(2, rollouts=1)
    for name in (first, second):
        api.put(objects.agent(name, instructions="Other.", skills=[{"name": "haiku"}]))
        await world.settle()
    before = api.find("Deployment", second)["spec"]
    api.set_status("Deployment", second, {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1})
    await world.settle()
    assert "waits for other rollouts" in world.conditions("Agent", second)["Programmed"][2]
    assert api.find("Deployment", second)["spec"] == before
    prove(api, first, code=1)
    await world.until(lambda: second in tried(api), seconds=5)
    assert api.find("Deployment", second)["spec"] == before


async def test_rollout_limiter_does_not_delay_token_rotation(fleet, api, objects):
    world, (first, second) = await fleet(2, rollouts=1)
    labels = {**names.labels(names.AGENT, second), names.COMPONENT: "agent"}
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": labels}})
    for name in (first, second):
        api.put(objects.agent(name, instructions="Other."))
        await world.settle()
    assert "waits for other rollouts" in world.conditions("Agent", second)["Programmed"][2]
    token = api.find("Secret", f"{second}-client-default")["data"]
    refreshed = api.find("Pod", "p")["metadata"]["annotations"]
    count = len(api.writes)

    api.remove("Secret", f"{second}-client-default")
    await world.settle()
    assert api.find("Secret", f"{second}-client-default")["data"] != token
    assert api.find("Pod", "p")["metadata"]["annotations"] != refreshed
    writes = api.writes[count:]
    assert writes.index(f"apply Secret {second}-auth") < writes.index("merge Pod p")
    assert "waits for other rollouts" in world.conditions("Agent", second)["Programmed"][2]


async def test_rollout_limiter_state_survives_an_operator_restart(fleet, make_world, api, objects, settings):
    world, _ = await fleet(3, rollouts=1)
    api.put(objects.skill(text="Other lines."))
    await world.settle()
    (first,) = tried(api)
    prove(api, first)
    await world.settle()
    assert tried(api) == [], "its Deployment was changed"
    await world.stop()

    second = make_world(api, replace(settings, rollouts=1))
    await second.start()
    await second.settle()
    assert replaced(api) == {first}
    api.roll_out(first)
    await second.until(lambda: len(tried(api)) == 1)
    await second.stop()


async def test_rollout_limiter_times_out_an_agent_that_never_serves(fleet, api, objects):
    world, _ = await fleet(2, rollouts=1)
    api.put(objects.skill(text="Other lines."))
    await world.settle()
    (first,) = tried(api)
    prove(api, first)
    await world.settle()
    await world.later(LONGEST_SECONDS - 1)
    assert tried(api) == []
    await world.later(WAITING_SECONDS + 1)
    assert len(tried(api)) == 1
    assert first not in tried(api)


async def test_rollout_limiter_frees_the_slot_of_a_deleted_agent(fleet, api, objects):
    world, agents = await fleet(4, rollouts=1)
    api.put(objects.skill(text="Other lines."))
    await world.settle()
    (first,) = tried(api)
    waiting = [name for name in agents if name != first]
    api.remove("Agent", waiting[0])
    api.remove("Agent", first)
    await world.until(lambda: len(set(tried(api)) - {first}) == 1, seconds=1)


async def test_rollout_limiter_skips_an_agent_whose_spec_is_reverted(fleet, api, objects):
    world, (first, second, third) = await fleet(3, rollouts=1)
    for name in (first, second, third):
        api.put(objects.agent(name, instructions="Other.", skills=[{"name": "haiku"}]))
        await world.settle()
    assert tried(api) == [first]
    api.put(objects.agent(second, skills=[{"name": "haiku"}]))
    await world.settle()
    assert world.conditions("Agent", second)["Ready"][0] == "True"
    prove(api, first, code=1)
    await world.until(lambda: third in tried(api), seconds=1)
