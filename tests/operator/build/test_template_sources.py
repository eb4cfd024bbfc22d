"""Secrets and ConfigMaps that a podTemplate names: a changed environment replaces the pod."""

import pytest

from fleetwright_api import names
from fleetwright_operator.build.pod.template_sources import environment_places, volume_places


def reference(field, name="a"):
    return {"env": [{"name": "X", "valueFrom": {field: {"name": name, "key": "k"}}}]}


def container(part):
    return {"containers": [{"name": "agent", **part}]}


PLACES = [
    pytest.param(container(reference("secretKeyRef")), [("Secret", "a")], [], id="a variable of a Secret"),
    pytest.param(container(reference("configMapKeyRef")), [("ConfigMap", "a")], [], id="a variable of a ConfigMap"),
    pytest.param(
        container({"envFrom": [{"secretRef": {"name": "b"}}, {"prefix": "P", "configMapRef": {"name": "a"}}]}),
        [("ConfigMap", "a"), ("Secret", "b")],
        [],
        id="all variables of one",
    ),
    pytest.param(
        {"initContainers": [{"name": "first", **reference("secretKeyRef")}]},
        [("Secret", "a")],
        [],
        id="a container that comes first",
    ),
    pytest.param(container(reference("fieldRef")), [], [], id="a variable of the pod's own"),
    pytest.param({"volumes": [{"name": "v", "secret": {"secretName": "a"}}]}, [], [("Secret", "a")], id="a volume"),
    pytest.param(
        {
            "volumes": [
                {"name": "v", "projected": {"sources": [{"secret": {"name": "b"}}, {"configMap": {"name": "a"}}]}},
                {"name": "w", "configMap": {"name": "c"}},
            ]
        },
        [],
        [("ConfigMap", "a"), ("ConfigMap", "c"), ("Secret", "b")],
        id="volumes of several",
    ),
    pytest.param("a word", [], [], id="no object"),
    pytest.param({"containers": {"env": 1}, "volumes": ["x"]}, [], [], id="lists that are none"),
    pytest.param(container({"env": [{"name": "X", "valueFrom": "a"}]}), [], [], id="a source that is a word"),
    pytest.param({"volumes": [{"secret": {"secretName": 1}}]}, [], [], id="a name that is a number"),
]


@pytest.mark.parametrize(("spec", "environment", "volumes"), PLACES)
def test_template_sources_are_found_in_any_shape_of_patch(spec, environment, volumes):
    patch = {"spec": spec}
    assert (environment_places(patch), volume_places(patch)) == (environment, volumes)


def test_template_sources_are_empty_if_patch_is_no_object(objects):
    patch = objects.agent_view(podTemplate=["x"]).spec.pod_template
    assert (environment_places(patch), volume_places(patch)) == ([], [])


def template(api):
    return api.find("Deployment", "poet")["spec"]["template"]


async def test_environment_change_changes_the_pod_template(world, api, objects):
    api.put(objects.secret("tuning", LEVEL="MQ=="))
    spec = container({"envFrom": [{"secretRef": {"name": "tuning"}}]})
    api.put(objects.agent(podTemplate={"spec": spec}))
    await world.start()
    await world.settle()
    before = template(api)
    api.put(objects.secret("other", LEVEL="MQ=="))
    await world.settle()
    assert template(api) == before, "only named objects change the template"

    api.put(objects.secret("tuning", LEVEL="Mg=="))
    await world.settle()
    mark = names.ENVIRONMENT_ANNOTATION
    assert template(api)["metadata"]["annotations"][mark] != before["metadata"]["annotations"][mark]
    api.remove("Secret", "tuning")
    await world.settle()
    gone = template(api)["metadata"]["annotations"][mark]
    api.put(objects.secret("tuning", LEVEL="Mg=="))
    await world.settle()
    assert template(api)["metadata"]["annotations"][mark] != gone, "an optional Secret counts too"


async def test_environment_change_of_a_serving_agent_is_preflighted(world, api, objects):
    """A serving agent receives a changed environment only after a preflight."""
    api.put(objects.secret("tuning", LEVEL="MQ=="))
    api.put(objects.agent(podTemplate={"spec": container(reference("secretKeyRef", "tuning"))}))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    before = template(api)
    api.put(objects.secret("tuning", LEVEL="Mg=="))
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "Preflight"
    assert template(api) == before

    (failed,) = api.probes("poet")
    container_status = {"name": "agent", "state": {"terminated": {"exitCode": 2, "message": "no such level"}}}
    api.set_status("Pod", failed, {"phase": "Failed", "containerStatuses": [container_status]})
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "PreflightFailed"
    api.put(objects.secret("tuning", LEVEL="Mw=="))
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "Preflight", "a corrected one gets a preflight"
    assert api.probes("poet") != [failed]


async def test_volume_content_change_refreshes_the_running_pod(world, api, objects):
    api.put(objects.secret("certificates", ca="MQ=="))
    spec = {"volumes": [{"name": "extra", "secret": {"secretName": "certificates"}}]}
    api.put(objects.agent(podTemplate={"spec": spec}))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    before = template(api)
    labels = before["metadata"]["labels"]
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": labels}})
    await world.settle()
    first = api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION]
    api.put(objects.secret("certificates", ca="Mg=="))
    await world.settle()
    assert api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION] != first
    assert template(api) == before
    assert names.ENVIRONMENT_ANNOTATION not in before["metadata"]["annotations"]
