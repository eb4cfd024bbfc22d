"""The runtime's own models accept every golden manifest of the operator."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from a2a.types import AgentCard
from google.protobuf import json_format
from tests.support.agent.call_records import call_records

from fleetwright_a2a.extensions import ASK
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import Callers
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer, Peer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.server.extensions import spoken
from fleetwright_agent.server.prompts.prompt_scheduler import PREFLIGHT
from fleetwright_agent.server.push.encryption import parse_keys
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteOpenQuestions
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.turn.context import TurnContext
from fleetwright_api import names
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_operator.build.agent_config import agent_config
from fleetwright_operator.build.card_extensions import declared_extensions
from fleetwright_operator.build.config.tool_access import peer_tool, server_entry
from fleetwright_operator.settings import Settings

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/operator/golden"
AGENTS = ("agent-full", "agent-least", "agent-push", "agent-push-anywhere", "agent-with-sleeping-peer")


def manifests(golden: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((GOLDEN / f"{golden}.yaml").read_text()))


def one(golden: str, kind: str, ending: str = "") -> dict[str, Any]:
    return next(
        body for body in manifests(golden) if body["kind"] == kind and body["metadata"]["name"].endswith(ending)
    )


@pytest.fixture(params=AGENTS)
def golden(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def config(golden: str) -> AgentConfig:
    return AgentConfig.model_validate_json(one(golden, "ConfigMap")["data"][names.CONFIG_KEY])


def test_runtime_accepts_the_generated_configuration(golden):
    read = config(golden)
    assert one(golden, "ConfigMap")["metadata"]["name"] == f"{read.name}-{read.revision}"


def test_agent_card_round_trips_through_the_sdk(golden):
    document = json.loads(one(golden, "ConfigMap")["data"][names.CARD_KEY])
    card = json_format.ParseDict(document, AgentCard())
    assert json_format.MessageToDict(card) == document
    reached = {"agent-full": "https://agents.example.com/poet"}.get(golden, config(golden).url)
    assert {interface.url for interface in card.supported_interfaces} == {f"{reached}/a2a"}
    versions = {interface.protocol_version for interface in card.supported_interfaces}
    assert versions == {str(name) for name in config(golden).dialects}
    assert {extension.uri for extension in card.capabilities.extensions} == spoken(config(golden))
    assert card.skills


def test_preflight_tells_the_runtime_to_send_no_prompts():
    (container,) = one("preflight", "Pod")["spec"]["containers"]
    assert {"name": PREFLIGHT, "value": "true"} in container["env"]


HOUSE = [{"name": "house"}]
SPECS = [
    pytest.param({}, False, id="a plain one"),
    pytest.param({"askHuman": True}, True, id="one that asks people"),
    pytest.param({"initialPrompt": "Begin.", "idlePrompt": {"text": "Look."}}, False, id="one that begins by itself"),
    pytest.param({"approvals": {"tools": ["ask_cook"]}}, True, id="one that needs approval of a peer"),
    pytest.param({"mcpServers": [{"name": "house", "tools": {"requireApproval": ["pay"]}}]}, True, id="of a tool"),
    pytest.param({"budgets": [{"period": "Day", "tokens": 9, "onExceeded": "Pause"}]}, True, id="one that pauses"),
    pytest.param({"budgets": [{"period": "Day", "tokens": 9}]}, False, id="one with a budget that ends"),
    pytest.param({"mcpServers": HOUSE, "enforcement": {"deny": ["house__pay"]}}, True, id="a rule for a tool"),
    pytest.param({"mcpServers": HOUSE, "enforcement": {"deny": ["ask_cook"]}}, False, id="a rule for what is known"),
    pytest.param({"a2a": {"dialects": ["1.0"], "extensions": {"toolCalls": False}}}, False, id="a silent one"),
    pytest.param({"workspace": {"image": "node:22"}}, True, id="one with a workspace"),
    pytest.param({"workspace": {"image": "node:22", "tools": ["read_file"]}}, False, id="one that only reads files"),
    pytest.param(
        {"workspace": {"image": "node:22", "approvals": {"edits": "Auto", "shell": "Auto"}}},
        False,
        id="a free workspace",
    ),
    pytest.param(
        {"workspace": {"image": "node:22", "tools": ["bash"], "approvals": {"shell": "Tiered"}}}, True, id="a shell"
    ),
    pytest.param({"a2a": {"extensions": {"context": True}}}, False, id="one that reports its context"),
    pytest.param({"a2a": {"dialects": ["1.0", "0.1"]}}, False, id="one whose callers choose ids"),
    pytest.param({"askHuman": True, "executor": {"name": "dice:Dice"}}, False, id="one of other code than ours"),
]


@pytest.mark.parametrize(("spec", "asks"), SPECS)
def test_agent_card_declares_the_extensions_of_the_runtime(spec, asks):
    model = {"name": "m", "baseURL": "https://m.example.com/v1", "contextWindow": 1000, "maxOutputTokens": 100}
    metadata = {"name": "poet", "namespace": "team"}
    agent = parse_agent({"metadata": metadata, "spec": {"instructions": "Write.", "model": model, **spec}})
    remote = {"remote": {"url": "https://h.example/mcp"}}
    server = parse_mcp_server({"metadata": {"name": "house", "namespace": "team"}, "spec": remote})
    compiled = agent_config(
        agent, skills=[], servers={"house": server}, peers={}, endpoints=Endpoints(), settings=Settings()
    )
    declared = {each["uri"] for each in declared_extensions(agent.spec)}
    config = AgentConfig.model_validate(compiled | {"revision": "0"})
    assert declared == spoken(config, foreign=config.executor is not None)
    assert (ASK in declared) is asks


@pytest.mark.parametrize("proxy", [None, "http://proxy.example.com:3128"])
def test_runtime_reads_the_proxy_of_a_server(proxy):
    remote = {"url": "https://h.example/mcp", **({"proxyURL": proxy} if proxy else {})}
    server = parse_mcp_server({"metadata": {"name": "house", "namespace": "team"}, "spec": {"remote": remote}})
    read = McpServer.model_validate(server_entry(server, Endpoints()))
    assert (read.url, read.proxy_url) == ("https://h.example/mcp", proxy)


@pytest.mark.parametrize("golden", ["agent-push", "agent-push-anywhere"], indirect=True)
def test_push_keys_are_mounted_where_the_configuration_points(golden):
    """The push keys are mounted at the configured path, and the card declares push notifications."""
    read = config(golden)
    assert read.push is not None
    pod = one(golden, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [each["secret"] for each in pod["volumes"] if each["name"] == "push"]
    (mount,) = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == "push"]
    data = one(golden, "Secret", volume["secretName"].removeprefix("poet"))["data"]
    files = {f"{mount}/{key}": base64.b64decode(text) for key, text in data.items()}
    assert len(parse_keys(files[str(Layout().secret(read.push.key_file))])) == 2
    assert json.loads(one(golden, "ConfigMap")["data"][names.CARD_KEY])["capabilities"]["pushNotifications"] is True


def test_agent_card_lists_mounted_and_declared_skills():
    document = json.loads(one("agent-full", "ConfigMap")["data"][names.CARD_KEY])
    assert [skill["id"] for skill in document["skills"]] == [
        *(skill.name for skill in config("agent-full").skills),
        "ode",
    ]


def test_agent_card_output_modes_match_the_result_types():
    document = json.loads(one("agent-full", "ConfigMap")["data"][names.CARD_KEY])
    results = {result.skill: result.media_type for result in config("agent-full").results}
    said = {skill["id"]: skill["outputModes"][0] for skill in document["skills"] if "outputModes" in skill}
    assert said == results == {"haiku": "application/json"}


def test_runtime_accepts_the_callers_file(golden):
    data = one(golden, "Secret", "-auth")["data"]
    callers = Callers.model_validate_json(base64.b64decode(data[names.CALLERS_KEY]))
    owners = {caller.owner for caller in callers.callers}
    expected = {"agent-full": {"client:ops", "client:web", "agent:shop/editor"}, "agent-least": {"client:default"}}
    expected["agent-with-sleeping-peer"] = {"client:default"}
    assert owners == expected.get(golden, set())


def test_pod_mounts_every_file_that_the_runtime_reads(golden):
    layout, read = Layout(), config(golden)
    files = set(_mounted_files(golden))
    wanted = {layout.config_file, layout.card_file, layout.callers_file}
    wanted |= {layout.peer_token_file(peer.namespace, peer.name) for peer in read.peers}
    wanted |= {layout.skill(skill.name) / "SKILL.md" for skill in read.skills}
    if read.gateway or any(peer.through_gateway for peer in read.peers):
        wanted.add(layout.gateway_token_file)
    named = [read.model.api_key_file, read.model.ca_file, read.instructions_file]
    named += [header.value_file for header in read.model.headers]
    wanted |= {layout.secret(file) for file in named if file}
    for server in read.mcp_servers:
        wanted |= {layout.secret(header.value_file) for header in server.headers}
        wanted |= {layout.secret(server.ca_file)} if server.ca_file else set()
    assert wanted <= files
    assert layout.memory in {Path(mount["mountPath"]) for mount in _container(golden)["volumeMounts"]}


def test_termination_grace_period_exceeds_drain_seconds(golden):
    pod = one(golden, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > config(golden).drain_seconds


def _container(golden: str) -> dict[str, Any]:
    container: dict[str, Any] = one(golden, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return container


def _mounted_files(golden: str) -> Iterator[Path]:
    volumes = {volume["name"]: volume for volume in one(golden, "Deployment")["spec"]["template"]["spec"]["volumes"]}
    secret = one(golden, "Secret", "-auth")
    for mount in _container(golden)["volumeMounts"]:
        volume, below = volumes[mount["name"]], Path(mount["mountPath"])
        projected = volume.get("projected", {}).get("sources", ())
        yield from (below / each["serviceAccountToken"]["path"] for each in projected)
        source = volume.get("configMap") or volume.get("secret") or {}
        yield from (below / item["path"] for item in source.get("items", ()))
        if source.get("secretName") == secret["metadata"]["name"]:
            yield from (below / key for key in secret["data"])
        if mount["name"] == "card":
            yield from (below / key for key in one(golden, "ConfigMap", "-card")["data"])


def test_runtime_reads_the_address_of_a_sleeping_peer():
    read = config("agent-with-sleeping-peer")
    (peer,) = read.peers
    assert (peer.through_gateway, read.gateway) == (True, None)
    assert peer.url == "http://fleetwright-gateway.fleetwright-system/agents/shop/helper"


async def test_peer_tool_name_matches_the_runtime(tmp_path):
    peer = Peer(name="night-desk", namespace="shop", url="http://night-desk")
    memory = Database(tmp_path / "conversations.db", SCHEMA)
    context = TurnContext(TurnRequest("o", "c", "t", "x"), lambda _: None, {})
    peers = PeerTools(
        "shop/desk", [peer], Layout(), httpx.AsyncClient(), SqliteOpenQuestions(memory), records=call_records()
    )
    (tool,) = await peers.tools(context)
    assert peer_tool("night-desk") == tool.name
