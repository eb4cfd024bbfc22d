"""The operator repeats the validation rules of the CRD, for CRDs without them, and checks every address."""

import ipaddress
import json
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject

MODEL = {"name": "m", "baseURL": "https://models.example.com/v1"}
HELPER = {"name": "helper", "description": "Helps.", "instructions": "Help."}
INVALID = [
    pytest.param({"instructions": " "}, "InstructionsMissing", "spec.instructions is empty", id="no instructions"),
    pytest.param({"model": {"name": ""}}, "ModelMissing", "spec.model.name is empty", id="no model"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "http://127.0.0.1/v1"}},
        "InvalidAddress",
        "spec.model.baseURL: 127.0.0.1 is the agent's own pod",
        id="a model on loopback",
    ),
    pytest.param(
        {"model": {"name": "m", "baseURL": "http://169.254.169.254/v1"}},
        "InvalidAddress",
        "address of the node",
        id="the cloud's metadata as a model",
    ),
    pytest.param(
        {
            "model": {
                "name": "m",
                "baseURL": "http://models.example.com/v1",
                "proxyURL": "http://proxy.example.com:3128",
                "apiKeySecretRef": {"name": "key"},
            }
        },
        "InvalidAddress",
        "spec.model.baseURL is http://models.example.com/v1 and must be an https address",
        id="a key that a proxy would read",
    ),
    pytest.param(
        {"model": {**MODEL, "contextWindow": 128_000, "maxOutputTokens": 200_000}},
        "ModelLimits",
        "below the context window",
        id="no room to read",
    ),
    pytest.param(
        {"model": {**MODEL, "fallbacks": [{"name": "a"}, {"name": "b", "baseURL": "http://127.0.0.1/v1"}]}},
        "InvalidAddress",
        "spec.model.fallbacks[1].baseURL: 127.0.0.1 is the agent's own pod",
        id="a fallback on loopback",
    ),
    pytest.param(
        {"model": {**MODEL, "fallbacks": [{"name": "a", "timeout": "soon"}]}},
        "InvalidDuration",
        "spec.model.fallbacks[0].timeout",
        id="no duration of a fallback",
    ),
    pytest.param({"model": {**MODEL, "timeout": "soon"}}, "InvalidDuration", "such as 90s", id="no duration"),
    pytest.param({"initialPrompt": " "}, "PromptEmpty", "spec.initialPrompt is empty", id="an empty first prompt"),
    pytest.param(
        {"idlePrompt": {"text": "\n"}}, "PromptEmpty", "spec.idlePrompt.text is empty", id="an empty idle prompt"
    ),
    *(
        pytest.param(
            {"idlePrompt": {"text": "Look.", "every": every}}, "InvalidDuration", "spec.idlePrompt.every", id=words
        )
        for every, words in (
            ("59s", "idle prompts too often"),
            ("25h", "idle prompts too rarely"),
            ("soon", "idle prompts at no time"),
        )
    ),
    pytest.param(
        {"a2a": {"skills": [{"id": "list", "description": "Lists.", "outputSchema": {"type": "array"}}]}},
        "OutputSchema",
        "spec.a2a.skills[0].outputSchema.type must be object",
        id="a result that is no object",
    ),
    *(
        pytest.param({"a2a": {"publicURL": url}}, "InvalidAddress", f"spec.a2a.publicURL: {url}", id=words)
        for url, words in (
            ("http://localhost.:80/x", "a public address of the reader's own machine"),
            ("http://[::1", "a public address that is none"),
        )
    ),
    *(
        pytest.param(spec, "UnknownWord", f"spec.{field} has {word!r}; use one of {words}", id=f"no word of {field}")
        for spec, field, word, words in (
            ({"network": {"policy": "managed"}}, "network.policy", "managed", "Managed, None"),
            ({"a2a": {"publicCard": "minimal"}}, "a2a.publicCard", "minimal", "Full, Minimal"),
            ({"logging": {"level": "loud"}}, "logging.level", "loud", "debug, info, warning, error"),
            ({"a2a": {"dialects": ["1.0", "2.0"]}}, "a2a.dialects", "2.0", "1.0, 0.3, 0.1"),
            (
                {"allowedCallers": {"namespaces": {"from": "same"}}},
                "allowedCallers.namespaces.from",
                "same",
                "Same, All, Selector",
            ),
        )
    ),
    pytest.param({"approvals": {"expiry": "soon"}}, "InvalidDuration", "spec.approvals.expiry", id="no expiry"),
    pytest.param(
        {"budgets": [{"period": "Day", "usd": "5"}]},
        "BudgetUnpriced",
        "spec.budgets[Day].usd needs the price of 'm': set spec.model.price, or use tokens",
        id="a budget in dollars for a model without a price",
    ),
    pytest.param(
        {"budgets": [{"period": "Day", "tokens": 5}], "memory": {"storage": {"ephemeral": True}}},
        "BudgetNeedsMemory",
        "remove spec.memory.storage.ephemeral",
        id="a budget that would begin anew with every pod",
    ),
    pytest.param(
        {"sleep": {"afterIdle": "15m"}, "memory": {"storage": {"ephemeral": True}}},
        "SleepNeedsMemory",
        "remove spec.memory.storage.ephemeral or spec.sleep",
        id="a sleep that would lose tasks and conversations",
    ),
    pytest.param(
        {"enforcement": {"limits": [{"tool": "*", "max": 1, "window": "soon"}]}},
        "InvalidDuration",
        "spec.enforcement.limits[0].window",
        id="no window",
    ),
    pytest.param(
        {"enforcement": {"deny": ["tools_add"]}, "mcpServers": [{"name": "tools"}]},
        "UnknownTool",
        "spec.enforcement.deny names 'tools_add'",
        id="a denied tool of nobody",
    ),
    pytest.param(
        {"enforcement": {"arguments": [{"tool": "ask_other", "schema": {}}]}},
        "UnknownTool",
        "spec.enforcement.arguments names 'ask_other'",
        id="a rule for a tool of nobody",
    ),
    pytest.param(
        {"approvals": {"tools": ["tools_add"]}, "mcpServers": [{"name": "tools"}]},
        "UnknownTool",
        "write <server>__<tool>",
        id="approval of a tool that it does not have",
    ),
    *(
        pytest.param(
            {"mcpServers": [{"name": "bank"}], "enforcement": {"arguments": [{"tool": "bank__pay", "schema": schema}]}},
            "ArgumentSchema",
            f"spec.enforcement.arguments[bank__pay].schema {says}",
            id=words,
        )
        for schema, says, words in (
            (
                {"patternProperties": {"^x": {}}},
                "has patternProperties, whose patterns may run without end; use propertyNames and properties",
                "a rule with patterns of names",
            ),
            (
                {"allOf": [{"properties": {"to": {"patternProperties": {}}}}]},
                "has patternProperties",
                "a rule with patterns of names, further in",
            ),
            (
                {"properties": {"to": {"$ref": "https://schemas.example.com/iban"}}},
                "refers to 'https://schemas.example.com/iban', which is not fetched",
                "a rule that refers to elsewhere",
            ),
        )
    ),
    *(
        pytest.param({"model": {"name": "m", "baseURL": "http://192.0.2.9/v1", **model}}, "ExtraBody", says, id=words)
        for model, says, words in (
            (
                {"extraBody": {"temperature": 1}},
                "spec.model.extraBody has 'temperature'; set spec.model.temperature instead",
                "what every call says, of what has a field",
            ),
            (
                {"extraBody": {"messages": []}},
                "spec.model.extraBody has 'messages', which the agent sets itself; remove it",
                "what every call says, of what makes a turn",
            ),
            (
                {"provider": "Google", "extraBody": {"top_k": 40}},
                "spec.model.extraBody needs provider OpenAI",
                "what every call says, to a provider without a place for it",
            ),
            (
                {"fallbacks": [{"name": "n", "extraBody": {"stream": False}}]},
                "spec.model.fallbacks[0].extraBody has 'stream'",
                "what every call of a fallback says",
            ),
        )
    ),
    pytest.param(
        {"enforcement": {"deny": ["task"]}},
        "UnknownTool",
        "spec.enforcement.deny names 'task'",
        id="the tool that gives work, where there is no sub-agent",
    ),
    pytest.param(
        {"plugins": [{"name": "tools"}], "mcpServers": [{"name": "tools"}]},
        "PluginIsServer",
        "spec.plugins and spec.mcpServers both have 'tools'",
        id="a plugin with the name of a server",
    ),
    pytest.param(
        {"toolSearch": {"above": 9, "always": ["tools_add"]}, "mcpServers": [{"name": "tools"}]},
        "UnknownTool",
        "spec.toolSearch.always names 'tools_add'",
        id="a tool of nobody that is always shown",
    ),
    pytest.param(
        {"memory": {"knowledge": {"enabled": True, "ingest": ["tools_add"]}}, "mcpServers": [{"name": "tools"}]},
        "UnknownTool",
        "spec.memory.knowledge.ingest names 'tools_add'",
        id="a tool of nobody whose results are to be kept",
    ),
    pytest.param(
        {"subAgents": [HELPER | {"tools": ["tools_add"]}], "mcpServers": [{"name": "tools"}]},
        "UnknownTool",
        "spec.subAgents[helper].tools names 'tools_add', which is not a tool of this agent",
        id="a tool of nobody for a sub-agent",
    ),
    pytest.param(
        {"subAgents": [HELPER | {"tools": ["task"]}]},
        "UnknownTool",
        "spec.subAgents[helper].tools names 'task': a sub-agent cannot delegate",
        id="a sub-agent that would give work",
    ),
    pytest.param(
        {"subAgents": [HELPER | {"timeout": "soon"}]},
        "InvalidDuration",
        "spec.subAgents[helper].timeout",
        id="a time limit of a sub-agent that is none",
    ),
    pytest.param(
        {"subAgents": [HELPER], "memory": {"skills": {"subAgents": ["clerk"]}}},
        "UnknownSubAgent",
        "spec.memory.skills.subAgents names 'clerk', which is not in spec.subAgents",
        id="learning from a sub-agent that is none",
    ),
    pytest.param(
        {"memory": {"skills": {"curation": {"halfLife": "soon"}}}},
        "InvalidDuration",
        "spec.memory.skills.curation.halfLife",
        id="a half-life that is not a duration",
    ),
    pytest.param(
        {"subAgents": [HELPER | {"model": {"name": "tiny", "contextWindow": 100}}]},
        "ModelLimits",
        "spec.subAgents[helper].model.contextWindow is 100 and must be above spec.model.maxOutputTokens",
        id="a sub-agent whose model has no room for an answer",
    ),
    pytest.param(
        {"memory": {"storage": {"size": "64Mi"}}, "audit": {"maxBytes": 52428800}},
        "AuditTooLarge",
        "spec.audit.maxBytes is 52428800, and two files of it are more than half of spec.memory.maxBytes, which is"
        " 53687091 (four fifths of spec.memory.storage.size): lower spec.audit.maxBytes to 13421772 or less",
        id="a trail that would fill a small volume",
    ),
    pytest.param(
        {"memory": {"maxBytes": "16Mi"}, "audit": {"mode": "Required", "maxBytes": 4194305}},
        "AuditTooLarge",
        "which is 16777216: lower spec.audit.maxBytes to 4194304 or less, or raise spec.memory.maxBytes",
        id="a trail that would fill the room that is stated",
    ),
    pytest.param({"peers": [{"name": "poet"}]}, "PeerIsSelf", "names the agent itself", id="its own peer"),
]


@pytest.fixture
async def fleet(make_world, with_gateway, api):
    world = make_world(api, with_gateway)
    yield world
    await world.stop()


TOO_RARE = [
    pytest.param("10m", "10m", True, id="the agent sleeps before it is due"),
    pytest.param("600s", "10m", True, id="the same time in another unit"),
    pytest.param("10m", "601s", False, id="it is due before"),
    pytest.param(None, "5m", True, id="the default is too long"),
]


@pytest.mark.parametrize(("every", "after_idle", "refused"), TOO_RARE)
async def test_idle_prompt_is_due_before_the_agent_sleeps(fleet, api, objects, every, after_idle, refused):
    prompt = {"text": "Look.", **({"every": every} if every else {})}
    api.put(objects.agent(idlePrompt=prompt, sleep={"afterIdle": after_idle}))
    await fleet.start()
    await fleet.settle()
    status, reason, message = fleet.conditions("Agent", "poet")["Accepted"]
    assert (status, reason) == (("False", "IdlePromptInterval") if refused else ("True", "Valid"))
    if refused:
        assert "spec.idlePrompt.every" in message
        assert f"spec.sleep.afterIdle, which is {after_idle}" in message


@pytest.mark.parametrize(("spec", "reason", "says"), INVALID)
async def test_invalid_agent_is_not_accepted_and_written_once(world, api, objects, spec, reason, says):
    api.put(objects.agent(**spec))
    await world.start()
    await world.settle()
    status, found, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, found) == ("False", reason)
    assert says in message
    assert not api.has("Deployment", "poet")
    assert sum(write.startswith("status Agent") for write in api.writes) == 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({}, None, id="nothing, where a trail of the runtime's own size fits"),
        pytest.param({"memory": {"storage": {"size": "64Mi"}}}, {"maxBytes": 13421772}, id="less, in a small volume"),
        pytest.param(
            {"memory": {"maxBytes": "40Mi"}, "audit": {"mode": "Required"}},
            {"mode": "Required", "maxBytes": 10485760},
            id="less, where little room is stated",
        ),
        pytest.param(
            {"memory": {"maxBytes": "16Mi"}, "audit": {"maxBytes": 4194304}},
            {"maxBytes": 4194304},
            id="what the spec says, up to a quarter of the room",
        ),
        pytest.param(
            {"memory": {"maxBytes": "16Mi"}, "audit": {"mode": "Off", "maxBytes": 52428800}},
            {"mode": "Off", "maxBytes": 52428800},
            id="any size of a trail that is off",
        ),
    ],
)
async def test_audit_trail_size_follows_the_volume(world, api, objects, spec, told):
    api.put(objects.agent(**spec))
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["Accepted"][0] == "True"
    volumes = api.find("Deployment", "poet")["spec"]["template"]["spec"]["volumes"]
    name = next(each["configMap"]["name"] for each in volumes if each["name"] == "config")
    assert json.loads(api.find("ConfigMap", name)["data"]["agent.json"]).get("audit") == told


SERVERS = [
    pytest.param({}, "SourceAmbiguous", id="neither"),
    pytest.param({"remote": {"url": "http://x.example/"}, "workload": {"image": "i"}}, "SourceAmbiguous", id="both"),
    pytest.param({"remote": {"url": "http://localhost/mcp"}}, "InvalidAddress", id="loopback"),
    pytest.param(
        {"remote": {"url": "http://x.example/mcp", "proxyURL": "http://localhost:3128"}}, "InvalidAddress", id="a proxy"
    ),
    pytest.param(
        {"remote": {"url": "http://localhost/mcp", "proxyURL": "http://proxy.example:3128"}},
        "InvalidAddress",
        id="loopback behind a proxy",
    ),
    pytest.param({"workload": {}}, "ImageMissing", id="no image"),
    pytest.param({"remote": {"url": "http://x.example/", "transport": "Sse"}}, "UnknownWord", id="no remote transport"),
    pytest.param({"workload": {"image": "i", "transport": "stdio"}}, "UnknownWord", id="no transport of a workload"),
]


@pytest.mark.parametrize(("spec", "reason"), SERVERS)
async def test_invalid_mcp_server_is_a_condition_on_it_and_its_agents(world, api, objects, spec, reason):
    api.put(objects.custom(names.MCP_SERVER, "tools", spec))
    api.put(objects.agent(mcpServers=[{"name": "tools"}]))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "tools")["Accepted"][:2] == ("False", reason)
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "McpServerInvalid"


DENIED = [
    pytest.param(
        {"model": {"name": "m", "baseURL": "https://9.9.9.9/v1"}}, "InvalidAddress", id="an address of a model"
    ),
    pytest.param(
        {"model": {**MODEL, "fallbacks": [{"name": "a", "baseURL": "https://9.9.9.9/v1"}]}},
        "InvalidAddress",
        id="a fallback's",
    ),
    pytest.param({"model": {**MODEL, "proxyURL": "http://9.9.9.1:3128"}}, "InvalidAddress", id="a proxy's"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "https://[2002:909:909::1]/v1"}}, "InvalidAddress", id="one through 6to4"
    ),
    pytest.param(
        {"network": {"egress": [{"to": {"ipBlock": {"cidr": "9.9.9.8/29"}}, "ports": [{"port": 443}]}]}},
        "InvalidRange",
        id="a range inside",
    ),
]


@pytest.fixture
def with_denied_api_server(settings):
    return replace(settings, denied_ranges=(ipaddress.ip_network("9.9.9.0/24"),))


@pytest.mark.parametrize(("spec", "reason"), DENIED)
async def test_denied_range_in_an_agent_spec_is_refused(api, objects, make_world, with_denied_api_server, spec, reason):
    world = make_world(api, with_denied_api_server)
    api.put(objects.agent(**spec))
    await world.start()
    await world.settle()
    await world.stop()
    status, found, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, found) == ("False", reason)
    assert "in 9.9.9.0/24, which no agent of this installation may reach" in message
    assert not api.has("NetworkPolicy", "poet")


async def test_denied_range_in_a_server_or_skill_is_refused(api, objects, make_world, with_denied_api_server):
    world = make_world(api, with_denied_api_server)
    api.put(objects.custom(names.MCP_SERVER, "tools", {"remote": {"url": "https://9.9.9.9/mcp"}}))
    proxied = {"url": "https://x.example/mcp", "proxyURL": "http://9.9.9.1:3128"}
    api.put(objects.custom(names.MCP_SERVER, "proxied", {"remote": proxied}))
    haiku = objects.skill()
    need = {"egress": [{"ipBlock": {"cidr": "9.9.9.0/25"}, "ports": [443]}]}
    api.put({**haiku, "spec": {**haiku["spec"], "permissions": need}})
    far = {"git": {"url": "https://9.9.9.9/repository", "commit": "0" * 40}}
    api.put(objects.custom(names.SKILL, "far", {"source": far}))
    await world.start()
    await world.settle()
    await world.stop()
    for server in ("tools", "proxied"):
        assert world.conditions("McpServer", server)["Accepted"][1] == "InvalidAddress"
    assert world.conditions("Skill", "haiku")["Accepted"][1] == "InvalidPermission"
    assert world.conditions("Skill", "far")["Accepted"][1] == "InvalidAddress"


API_SERVER = frozenset({(ipaddress.ip_address("10.0.0.5"), 6443), (ipaddress.ip_address("10.96.0.1"), 443)})


def egress(cidr, **port):
    return {"network": {"egress": [{"to": {"ipBlock": {"cidr": cidr}}, "ports": [port]}]}}


def receivers(cidr):
    return {"a2a": {"push": {"allowedCIDRs": [cidr]}}}


NAMING_IT = [
    pytest.param({"model": {"name": "m", "baseURL": "https://10.0.0.5:6443/v1"}}, "InvalidAddress", id="as a model"),
    pytest.param({"model": {"name": "m", "baseURL": "https://10.96.0.1/v1"}}, "InvalidAddress", id="by its Service"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "https://[64:ff9b::a00:5]:6443/v1"}}, "InvalidAddress", id="through NAT64"
    ),
    pytest.param(egress("10.0.0.5/32", port=6443), "InvalidRange", id="as a range of one"),
    pytest.param(receivers("10.0.0.5/32"), "InvalidRange", id="as a receiver"),
]
NOT_IT = [
    pytest.param({"model": {"name": "m", "baseURL": "http://10.0.0.5:11434/v1"}}, id="something else of that machine"),
    pytest.param(egress("10.0.0.5/32", port=11434), id="a range of one with another port"),
    pytest.param(egress("10.0.0.5/32", port=6443, protocol="UDP"), id="a range of one with another protocol"),
    pytest.param(egress("10.0.0.0/24", port=6443), id="a wide range that holds it"),
    pytest.param(receivers("10.0.0.0/24"), id="a wide range of receivers"),
]


async def accepted(api, make_world, settings, *bodies):
    world = make_world(api, replace(settings, api_server=API_SERVER))
    for body in bodies:
        api.put(body)
    await world.start()
    await world.settle()
    await world.stop()
    return [world.conditions(body["kind"], body["metadata"]["name"])["Accepted"] for body in bodies]


@pytest.mark.parametrize(("spec", "reason"), NAMING_IT)
async def test_api_server_address_in_an_agent_spec_is_refused(api, objects, make_world, settings, spec, reason):
    ((status, found, message),) = await accepted(api, make_world, settings, objects.agent(**spec))
    assert (status, found) == ("False", reason)
    assert "is the API server, which no agent of this installation may reach" in message
    assert not api.has("NetworkPolicy", "poet")


@pytest.mark.parametrize("spec", NOT_IT)
async def test_address_next_to_the_api_server_is_accepted(api, objects, make_world, settings, spec):
    ((status, _, _),) = await accepted(api, make_world, settings, objects.agent(**spec))
    assert status == "True"


async def test_api_server_address_in_a_server_or_skill_is_refused(api, objects, make_world, settings):
    haiku, needs = objects.skill(), [{"ipBlock": {"cidr": "10.0.0.5/32"}, "ports": [443, 6443]}]
    found = await accepted(
        api,
        make_world,
        settings,
        objects.custom(names.MCP_SERVER, "tools", {"remote": {"url": "https://10.0.0.5:6443/mcp"}}),
        {**haiku, "spec": {**haiku["spec"], "permissions": {"egress": needs}}},
    )
    assert [reason for _, reason, _ in found] == ["InvalidAddress", "InvalidPermission"]


async def test_wide_egress_ranges_exclude_denied_ranges(api, objects, make_world, with_denied_api_server):
    world = make_world(api, with_denied_api_server)
    rule = {"to": {"ipBlock": {"cidr": "9.0.0.0/8"}}, "ports": [{"port": 25}]}
    haiku = objects.skill()
    need = {"egress": [{"ipBlock": {"cidr": "9.9.0.0/16"}, "ports": [5432]}]}
    api.put({**haiku, "spec": {**haiku["spec"], "permissions": need}})
    api.put(objects.agent(skills=[{"name": "haiku"}], network={"egress": [rule], "ingress": [{"from": rule["to"]}]}))
    await world.start()
    await world.settle()
    await world.stop()
    policy = api.find("NetworkPolicy", "poet")["spec"]
    blocks = [peer["ipBlock"] for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]
    excepted = {block["cidr"]: "9.9.9.0/24" in block.get("except", ()) for block in blocks}
    assert excepted == {"0.0.0.0/0": True, "2000::/3": False, "9.0.0.0/8": True, "9.9.0.0/16": True}
    entering = api.find("NetworkPolicy", "poet-ingress")["spec"]["ingress"]
    callers = [peer["ipBlock"] for rule in entering for peer in rule["from"] if "ipBlock" in peer]
    assert callers == [{"cidr": "9.0.0.0/8"}], "ingress ranges are not affected"


async def test_mutual_peers_are_both_programmed(world, api, objects):
    api.put(objects.agent("poet", peers=[{"name": "editor"}]))
    api.put(objects.agent("editor", peers=[{"name": "poet"}]))
    await world.start()
    await world.settle()
    for name in ("poet", "editor"):
        assert world.conditions("Agent", name)["Programmed"][0] == "True"
    assert "peer.shop.editor" in api.find("Secret", "poet-auth")["data"]


async def test_service_in_an_unwatched_namespace_is_reported(api, objects, make_world, settings):
    api.put(objects.agent(model={"name": "m", "baseURL": "http://llm.models.svc/v1"}))
    world = type(make_world(api))(api, replace(settings, namespaces=("shop",)))
    await world.start()
    await world.settle()
    await world.stop()
    message = world.conditions("Agent", "poet")["ReferencesResolved"][2]
    assert "namespace 'models' is not watched by this installation" in message


async def test_agent_report_of_server_errors_reaches_both_statuses(world, api, objects):
    remote = {"remote": {"url": "https://weather.example.com/mcp"}}
    api.put(objects.custom(names.MCP_SERVER, "weather", remote))
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "weather")["Available"][:2] == ("Unknown", "NotObserved")
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": dict(_pod().labels)}})
    pod = _pod()
    world.manager.report_handler.handle(
        pod, {"mcpServers": [{"name": "weather", "reachable": False, "message": "refused"}]}
    )
    await world.settle()
    assert world.conditions("Agent", "poet")["Degraded"][2] == "McpServer 'weather' cannot be reached: refused"
    assert world.conditions("McpServer", "weather")["Available"] == (
        "False",
        "Unreachable",
        "agent 'poet' cannot reach it: refused",
    )
    world.manager.report_handler.handle(pod, {"mcpServers": [{"name": "weather", "reachable": True}]})
    (probe,) = api.probes("weather")
    api.end_pod(probe, says='{"serverInfo": {}, "tools": [], "toolsDigest": "sha256:0"}')
    await world.settle()
    assert "Degraded" not in world.conditions("Agent", "poet")
    assert world.conditions("McpServer", "weather")["Ready"][0] == "True"


def _pod():
    labels = names.labels(names.AGENT, "poet")
    return CachedObject(kind="Pod", namespace="shop", name="p", uid="u", resource_version="1", labels=labels)
