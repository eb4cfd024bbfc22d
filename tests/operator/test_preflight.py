"""A revision that cannot start never takes the place of one that serves; what can, does, a few at a time."""

from dataclasses import replace

import pytest

from fleetwright_operator import names
from fleetwright_operator.desired.agent import AgentParts, agent_children
from fleetwright_operator.desired.manifest import owner_of
from fleetwright_operator.desired.preflight import preflight
from fleetwright_operator.desired.probe import probe_manifests


def preflights(api):
    return [pod for pod in api.all("Pod") if pod["metadata"]["labels"].get(names.COMPONENT) == names.PROBE]


def ended(api, pod, code, message=""):
    container = {"name": "agent", "state": {"terminated": {"exitCode": code, "message": message}}}
    phase = "Failed" if code else "Succeeded"
    name = pod["metadata"]["name"]
    api.set_status("Pod", name, {"phase": phase, "containerStatuses": [container]})


def revision_of_deployment(api, name="poet"):
    template = api.find("Deployment", name)["spec"]["template"]
    return template["metadata"]["annotations"][names.REVISION_ANNOTATION]


@pytest.fixture
async def serving(world, api, objects):
    """A world in which the agent's first revision serves; gives that revision."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    assert preflights(api) == [], "nothing serves that the first revision could harm"
    api.roll_out("poet")
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"
    return revision_of_deployment(api)


async def test_the_next_revision_is_proven_and_then_takes_over(world, api, objects, serving):
    policy = api.find("NetworkPolicy", "poet")["spec"]
    api.put(objects.agent(instructions="Other.", model={"name": "m", "baseURL": "https://other.example.com/v1"}))
    await world.settle()
    (pod,) = preflights(api)
    assert pod["spec"]["containers"][0]["args"] == ["probe", "agent"]
    assert revision_of_deployment(api) == serving
    assert api.find("NetworkPolicy", "poet")["spec"] == policy, "what serves keeps its ways out"
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "Preflight")
    assert message.endswith(f"revision {serving} goes on serving")

    ended(api, pod, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving
    assert preflights(api) == []
    assert not [policy for policy in api.all("NetworkPolicy") if "probe" in policy["metadata"]["name"]]
    told = api.find("Agent", "poet")["status"]
    assert (told["revision"], told["previousRevision"]) == (revision_of_deployment(api), serving)


async def test_a_revision_that_cannot_start_is_held_and_the_old_spec_heals(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 2, "fleetwright-agent: skill 'haiku' is not mounted\n")
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "PreflightFailed")
    assert "cannot start: skill 'haiku' is not mounted" in message
    assert revision_of_deployment(api) == serving

    api.put(objects.agent())
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"
    assert preflights(api) == []


async def test_a_third_spec_asks_a_question_of_its_own(world, api, objects, serving):
    api.put(objects.agent(instructions="Second."))
    await world.settle()
    (second,) = preflights(api)
    api.put(objects.agent(instructions="Third."))
    await world.settle()
    (third,) = preflights(api)
    assert third["metadata"]["name"] != second["metadata"]["name"]
    ended(api, third, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_what_keeps_the_preflight_from_running_is_told(world, api, objects, serving):
    api.put(objects.agent(image="registry.example.com/missing:1"))
    await world.settle()
    (pod,) = preflights(api)
    assert "command" not in pod["spec"]["containers"][0]
    waiting = {"name": "agent", "image": "missing", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Pending", "containerStatuses": [waiting]})
    await world.settle()
    assert "cannot be pulled" in world.conditions("Agent", "poet")["Programmed"][2]
    assert revision_of_deployment(api) == serving


async def test_a_foreign_program_that_serves_in_its_preflight_is_proven_by_that(world, api, objects, serving):
    api.put(objects.agent(image="registry.example.com/other:1"))
    await world.settle()
    (pod,) = preflights(api)
    ready = {"name": "agent", "ready": True, "state": {"running": {}}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Running", "containerStatuses": [ready]})
    await world.settle()
    container = api.find("Deployment", "poet")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example.com/other:1"


async def test_a_preflight_that_the_cluster_lost_is_made_again(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Failed", "reason": "Evicted"})
    await world.settle()
    (again,) = preflights(api)
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    ended(api, again, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_another_operator_goes_on_where_one_was_killed(world, make_world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    await world.stop()
    (pod,) = preflights(api)
    ended(api, pod, 0)
    second = make_world(api)
    await second.start()
    await second.settle()
    assert revision_of_deployment(api) != serving
    assert preflights(api) == []
    await second.stop()


async def test_what_does_not_serve_is_replaced_at_once(world, api, objects, serving):
    api.set_status("Deployment", "poet", {"observedGeneration": 1})
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    assert preflights(api) == []
    assert revision_of_deployment(api) != serving


async def test_scaling_and_suspending_prove_nothing(world, api, objects, serving):
    api.put(objects.agent(suspend=True))
    await world.settle()
    assert preflights(api) == []
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 0


async def test_a_shared_change_replaces_a_few_agents_at_a_time(make_world, api, objects, settings):
    world = make_world(api, replace(settings, rollouts=2, workers=1))
    agents = [f"a{number}" for number in range(5)]
    api.put(objects.skill())
    for name in agents:
        api.put(objects.agent(name, skills=[{"name": "haiku"}]))
    await world.start()
    await world.settle()
    for name in agents:
        api.roll_out(name)
    await world.settle()
    before = {name: revision_of_deployment(api, name) for name in agents}

    api.put(objects.skill(text="Other lines."))
    seen = 0
    for _ in range(len(agents)):
        await world.until(lambda: bool(preflights(api)))
        running = [pod for pod in preflights(api) if pod["status"].get("phase") is None]
        seen = max(seen, len(running))
        ended(api, running[0], 0)
        await world.until(lambda done=running[0]: done["metadata"]["name"] not in str(preflights(api)))
    await world.until(lambda: all(revision_of_deployment(api, name) != before[name] for name in agents))
    assert seen == 2
    await world.stop()


def test_the_preflight_is_the_pod_itself_with_a_memory_of_its_own(objects, settings, golden):
    poet = objects.agent(image="registry.example.com/poet:1", memory={"storage": {"size": "5Gi"}})
    children = agent_children(AgentParts(agent=poet), settings)
    wanted = preflight(owner_of(poet), children.template, routes=children.routes, referenced=["7"])
    golden("preflight", probe_manifests(wanted))
    other = preflight(owner_of(poet), children.template, routes=children.routes, referenced=["8"])
    assert other.name != wanted.name, "a mended Secret is another question"
