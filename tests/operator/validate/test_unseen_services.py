"""Services whose targets the operator cannot see: the remedies in the message, and the fields that it accepts."""

from dataclasses import replace

import pytest

from fleetwright_api import names


def service(name="llm", namespace="shop", **spec):
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


BY_NAME = service(type="ExternalName", externalName="llm.example.com")
BY_HAND = service(ports=[{"port": 80, "targetPort": 8080}])
MODEL = {"model": {"name": "m", "baseURL": "http://llm/v1"}}


def opened(to):
    return {"network": {"egress": [{"to": to, "ports": [{"port": 8080}], "why": "the model"}]}}


RANGE = opened({"ipBlock": {"cidr": "10.1.2.0/24"}})
NEIGHBOUR = opened({"podSelector": {"matchLabels": {"app": "db"}}})


async def resolved(world, api, body, kind=names.AGENT):
    api.put(body)
    await world.start()
    await world.settle()
    return world.conditions(kind, body["metadata"]["name"])["ReferencesResolved"]


@pytest.mark.parametrize("found", [BY_NAME, BY_HAND], ids=["an outside name", "endpoints written by hand"])
@pytest.mark.parametrize("spec", [{}, NEIGHBOUR], ids=["nothing opened", "only pods of this namespace opened"])
async def test_service_without_selector_is_refused_with_both_remedies(world, api, objects, found, spec):
    api.put(found)
    status, reason, message = await resolved(world, api, objects.agent(**MODEL, **spec))
    assert (status, reason) == ("False", "ServiceNotFound")
    assert message == (
        "model m names llm: Service 'llm' of namespace 'shop' has no selector, so its pods cannot be allowed; "
        "use the host that it points to instead, or open its addresses under spec.network.egress"
    )


@pytest.mark.parametrize("found", [BY_NAME, BY_HAND], ids=["an outside name", "endpoints written by hand"])
async def test_service_without_selector_is_accepted_with_an_open_range(world, api, objects, found):
    api.put(found)
    assert (await resolved(world, api, objects.agent(**MODEL, **RANGE)))[0] == "True"
    ways = {way["to"]: way["why"] for way in api.find("Agent", "poet")["status"]["egress"]}
    assert ways == {"DNS in kube-system, port 53": "to resolve names", "10.1.2.0/24, TCP 8080": "the model"}
    rules = api.find("NetworkPolicy", "poet")["spec"]["egress"]
    assert [peer for rule in rules for peer in rule["to"] if "ipBlock" in peer] == [
        {"ipBlock": {"cidr": "10.1.2.0/24"}}
    ]
    assert all(rule["to"] for rule in rules), "a rule without peers would open everything"


@pytest.mark.parametrize("found", [[BY_NAME], []], ids=["one without a selector", "none at all"])
async def test_service_is_not_checked_without_a_network_policy(world, api, objects, found):
    for body in found:
        api.put(body)
    assert (await resolved(world, api, objects.agent(**MODEL, network={"policy": "None"})))[0] == "True"


async def test_mcp_server_error_offers_only_the_applicable_remedy(world, api, objects):
    api.put(BY_NAME)
    server = objects.custom(names.MCP_SERVER, "far", {"remote": {"url": "http://llm/mcp"}})
    _, _, message = await resolved(world, api, server, names.MCP_SERVER)
    assert message.endswith("cannot be allowed; use the host that it points to instead")


OUT_OF_SIGHT = [
    pytest.param(
        "http://ollama.models.svc:11434",
        "'models' is not watched by this installation; add it to the namespaces of the chart, or open",
        id="surely a Service",
    ),
    pytest.param(
        "http://ollama.models:11434",
        "write ollama.models.svc.cluster.local if it is one, or use https for a host outside, or open",
        id="two labels and no encryption",
    ),
]


@pytest.fixture
async def some_namespaces(api, make_world, settings):
    """An operator of one namespace, without rights in other namespaces."""
    world = make_world(api, replace(settings, namespaces=("shop",)))
    yield world
    await world.stop()


@pytest.mark.parametrize(("url", "says"), OUT_OF_SIGHT)
async def test_service_in_unwatched_namespace_is_refused_with_remedy(some_namespaces, api, objects, url, says):
    model = {"model": {"name": "m", "baseURL": url}}
    status, reason, message = await resolved(some_namespaces, api, objects.agent(**model))
    assert (status, reason) == ("False", "ServiceNotFound")
    assert says in message
    assert message.endswith("or open its addresses under spec.network.egress")

    there = opened({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "models"}}})
    api.put(objects.agent(**model, **there))
    await some_namespaces.settle()
    assert some_namespaces.conditions("Agent", "poet")["ReferencesResolved"][0] == "True"
    ways = [way["to"] for way in api.find("Agent", "poet")["status"]["egress"]]
    assert not [way for way in ways if "outside the cluster" in way]


IN_SIGHT = [
    pytest.param("https://openrouter.ai/api/v1", "openrouter.ai:443, outside the cluster", id="two labels by https"),
    pytest.param("http://models.example.com/v1", "models.example.com:80, outside the cluster", id="three labels"),
    pytest.param("http://llm.shop/v1", "llm.shop:80, outside the cluster", id="no such Service where it can look"),
]


@pytest.mark.parametrize(("url", "way"), IN_SIGHT)
async def test_other_hosts_are_outside_for_a_namespaced_operator(some_namespaces, api, objects, url, way):
    agent = objects.agent(model={"name": "m", "baseURL": url})
    assert (await resolved(some_namespaces, api, agent))[0] == "True"
    assert way in [way["to"] for way in api.find("Agent", "poet")["status"]["egress"]]


LATE = [
    pytest.param({"telemetry": {"otlp": {"endpoint": "http://llm/v1"}}}, id="a collector of traces"),
    pytest.param({"a2a": {"push": {"allowedHosts": ["llm:80"]}}}, id="a receiver of push notifications"),
]


@pytest.mark.parametrize("spec", LATE)
async def test_agent_follows_a_service_that_is_created_later(world, api, objects, spec):
    assert (await resolved(world, api, objects.agent(**spec)))[1] == "ServiceNotFound"
    for port in (8080, 9090):
        api.put(service(selector={"app": "llm"}, ports=[{"port": 80, "targetPort": port}]))
        await world.settle()
        assert world.conditions("Agent", "poet")["ReferencesResolved"][0] == "True"
        ways = [way["to"] for way in api.find("Agent", "poet")["status"]["egress"]]
        assert f"pods of Service shop/llm, port {port}" in ways


async def test_headless_service_is_opened_on_the_port_of_the_url(world, api, objects):
    api.put(service(clusterIP="None", selector={"app": "llm"}, ports=[{"port": 80, "targetPort": 8080}]))
    model = {"model": {"name": "m", "baseURL": "http://llm:8080/v1"}}
    assert (await resolved(world, api, objects.agent(**model)))[0] == "True"
    assert "pods of Service shop/llm, port 8080" in [way["to"] for way in api.find("Agent", "poet")["status"]["egress"]]
