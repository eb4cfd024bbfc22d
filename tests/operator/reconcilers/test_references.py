"""References: skills by label, peers in other namespaces, foreign files, and the reconciles that follow changes."""

from dataclasses import replace

import pytest

from fleetwright_api.skill_selection import skill_names

TONE = {"skillSelector": {"matchLabels": {"tone": "calm"}}}


@pytest.mark.parametrize(
    ("named", "labels", "wanted"),
    [
        pytest.param([], {"b": {"tone": "calm"}, "a": {"tone": "calm"}}, ("a", "b"), id="found ones by name"),
        pytest.param(["z"], {"z": {"tone": "calm"}, "a": {"tone": "calm"}}, ("z", "a"), id="named ones first, once"),
        pytest.param(["z"], {"a": {"tone": "loud"}, "b": {}}, ("z",), id="nobody with other labels"),
    ],
)
def test_skill_names_combines_listed_and_selected_skills(objects, named, labels, wanted):
    agent = objects.agent_view(skills=[{"name": name} for name in named], **TONE)
    assert skill_names(agent.spec, labels) == wanted


def test_skill_names_ignores_labels_without_a_selector(objects):
    assert skill_names(objects.agent_view(skills=[{"name": "a"}]).spec, {"b": {}}) == ("a",)


async def test_skill_selector_follows_label_changes(world, api, objects):
    haiku = objects.skill()
    api.put(haiku)
    api.put(objects.agent(**TONE))
    await world.start()
    await world.settle()
    assert api.find("Agent", "poet")["status"]["skills"] == []
    assert api.find("Skill", "haiku")["status"]["usedBy"] == 0

    api.edit("Skill", "haiku", {"metadata": {"labels": {"tone": "calm"}}})
    await world.settle()
    assert [skill["name"] for skill in api.find("Agent", "poet")["status"]["skills"]] == ["haiku"]
    assert api.find("Skill", "haiku")["status"]["usedBy"] == 1

    api.edit("Skill", "haiku", {"metadata": {"labels": {"tone": "loud"}}})
    await world.settle()
    assert api.find("Agent", "poet")["status"]["skills"] == []
    assert api.find("Skill", "haiku")["status"]["usedBy"] == 0


def invitation(**labels):
    return {"allowedCallers": {"namespaces": {"from": "Selector", "selector": {"matchLabels": labels}}}}


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": "", "labels": labels}}


async def test_namespace_label_grants_and_revokes_calls(world, api, objects):
    api.put(namespace("press", team="a"))
    api.put(objects.agent("helper", **invitation(team="b")))
    api.put(objects.agent("poet", namespace="press", peers=[{"name": "helper", "namespace": "shop"}]))
    await world.start()
    await world.settle()
    poet = api.find("Agent", "poet", namespace="press")["status"]["conditions"]
    resolved = next(condition for condition in poet if condition["type"] == "ReferencesResolved")
    assert "'shop/helper' does not allow 'press/poet'" in resolved["message"]

    api.edit("Namespace", "press", {"metadata": {"labels": {"team": "b"}}}, namespace="")
    await world.settle()
    assert "peer.shop.helper" in api.find("Secret", "poet-auth", namespace="press")["data"]
    ingress = api.find("NetworkPolicy", "helper-ingress")["spec"]["ingress"]
    assert ingress[0]["from"][1]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "press"}

    api.edit("Namespace", "press", {"metadata": {"labels": {"team": "a"}}}, namespace="")
    await world.settle()
    assert "peer.shop.helper" not in api.find("Secret", "poet-auth", namespace="press")["data"]


async def test_namespaced_operator_refuses_namespace_selectors(make_world, api, objects, settings):
    world = make_world(api, replace(settings, namespaces=("shop",)))
    api.put(objects.agent("helper", **invitation(team="b")))
    await world.start()
    await world.settle()
    status, reason, _ = world.conditions("Agent", "helper")["Accepted"]
    assert (status, reason) == ("False", "NamespaceSelector")
    await world.stop()


async def test_referenced_file_change_refreshes_the_pod_only(world, api, objects):
    prompts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompts", "namespace": "shop"}}
    api.put({**prompts, "data": {"desk": "Be brief."}})
    poet = objects.agent(instructionsFrom={"configMapKeyRef": {"name": "prompts", "key": "desk"}})
    del poet["spec"]["instructions"]
    api.put(poet)
    labels = {"app.kubernetes.io/managed-by": "fleetwright", "fleetwright.dev/agent": "poet"}
    pod = {"kind": "Pod", "metadata": {"name": "poet-1", "namespace": "shop", "labels": labels}}
    api.put({"apiVersion": "v1", **pod})
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["ReferencesResolved"][0] == "True"
    revision = api.find("Agent", "poet")["status"]["revision"]
    api.writes.clear()

    api.put({**prompts, "data": {"desk": "Be long."}})
    await world.settle()
    assert api.writes == ["merge Pod poet-1"]
    assert api.find("Agent", "poet")["status"]["revision"] == revision


MISSING = [
    pytest.param(
        {"instructionsFrom": {"configMapKeyRef": {"name": "prompts", "key": "desk"}}},
        "spec.instructionsFrom names ConfigMap 'prompts', which does not exist",
        id="instructions",
    ),
    pytest.param(
        {"headersFrom": [{"name": "X-Tenant", "secretKeyRef": {"name": "gateway", "key": "tenant"}}]},
        "spec.model.headersFrom[X-Tenant] names Secret 'gateway', which does not exist",
        id="a header",
    ),
    pytest.param(
        {"caSecretRef": {"name": "authority"}},
        "spec.model.caSecretRef names Secret 'authority', which does not exist",
        id="an authority",
    ),
]


@pytest.mark.parametrize(("part", "says"), MISSING)
async def test_missing_file_reference_is_named_by_its_field(world, api, objects, part, says):
    poet = objects.agent()
    if "instructionsFrom" in part:
        del poet["spec"]["instructions"]
        poet["spec"].update(part)
    else:
        poet["spec"]["model"] = {**poet["spec"]["model"], **part}
    api.put(poet)
    await world.start()
    await world.settle()
    status, _, message = world.conditions("Agent", "poet")["ReferencesResolved"]
    assert status == "False"
    assert says in message
