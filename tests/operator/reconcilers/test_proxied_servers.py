"""McpServers behind an HTTP proxy: policies, probes and configuration name the proxy, and no connection avoids it."""

import json

import pytest

from fleetwright_api import names

URL, PROXY = "https://weather.example.com/mcp", "http://proxy.net:3128"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "proxy", "namespace": "net"},
    "spec": {"selector": {"app": "proxy"}, "ports": [{"port": 3128, "targetPort": 8888}]},
}
DNS = {"to": "DNS in kube-system, port 53", "why": "to resolve names"}
PROXY_PODS = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "net"}},
            "podSelector": {"matchLabels": {"app": "proxy"}},
        }
    ],
    "ports": [{"protocol": "TCP", "port": 8888}],
}


@pytest.fixture
def server(objects):
    def make(**remote):
        return objects.custom(names.MCP_SERVER, "weather", {"remote": {"url": URL, **remote}})

    return make


async def test_policies_of_a_proxied_server_allow_the_proxy_only(world, api, objects, server):
    api.put(SERVICE)
    api.put(server(proxyURL=PROXY))
    api.put(objects.agent(mcpServers=[{"name": "weather"}], model={"name": "m", "baseURL": "https://192.0.2.1/v1"}))
    await world.start()
    await world.settle()
    assert api.find("Agent", "poet")["status"]["egress"] == [
        DNS,
        {"to": "192.0.2.1:443", "why": "model m"},
        {"to": "pods of Service net/proxy, port 8888", "why": "McpServer weather, through its proxy"},
    ]
    assert PROXY_PODS in api.find("NetworkPolicy", "poet")["spec"]["egress"]
    (probe,) = api.probes("weather")
    _, *others = api.find("NetworkPolicy", probe)["spec"]["egress"]
    assert others == [PROXY_PODS]
    (*_, entry) = api.find("Pod", probe)["spec"]["containers"][0]["command"]
    assert json.loads(entry) == {"name": "weather", "url": URL, "proxyUrl": PROXY}
    assert api.find("McpServer", "weather")["status"]["url"] == URL


@pytest.mark.parametrize(
    ("remote", "wanted"),
    [
        pytest.param({}, {}, id="no proxy"),
        pytest.param({"proxyURL": PROXY}, {"proxyUrl": PROXY}, id="a proxy"),
    ],
)
async def test_agent_config_names_the_proxy_only_if_the_field_is_set(world, api, objects, server, remote, wanted):
    api.put(SERVICE)
    api.put(server(**remote))
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.settle()
    revision = api.find("Agent", "poet")["status"]["revision"]
    config = json.loads(api.find("ConfigMap", f"poet-{revision}")["data"]["agent.json"])
    assert config["mcpServers"] == [{"name": "weather", "url": URL, "allow": [], "deny": [], **wanted}]


async def test_proxied_server_waits_for_the_service_of_its_proxy(world, api, objects, server):
    """The name of the server itself is not looked up, because only the proxy must be able to resolve it."""
    api.put(server(url="http://tools.inside.svc.cluster.local/mcp", proxyURL="http://proxy.net.svc:3128"))
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "weather")["ReferencesResolved"] == (
        "False",
        "ServiceNotFound",
        "spec.remote.proxyURL names proxy.net.svc: Service 'proxy' does not exist in namespace 'net'",
    )
    api.put(SERVICE)
    await world.settle()
    for kind, name in (("McpServer", "weather"), ("Agent", "poet")):
        assert world.conditions(kind, name)["ReferencesResolved"][0] == "True"


async def test_changed_proxy_is_probed_again(world, api, server):
    api.put(server())
    await world.start()
    await world.settle()
    (first,) = api.probes("weather")
    api.put(SERVICE)
    api.put({**server(proxyURL=PROXY), "metadata": {**server()["metadata"], "generation": 2}})
    await world.settle()
    assert api.probes("weather") not in ([], [first])
