"""The complete manifests. They show how a code change affects a cluster."""

import base64
import ipaddress
import json
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_api.model_catalog import parse_catalog
from fleetwright_api.skill_document import read_skill
from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_api.spec.skill import parse_skill
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.auth_files import Tokens
from fleetwright_operator.build.config.gateway import GatewayTrust
from fleetwright_operator.build.deployment import SkillSnapshot
from fleetwright_operator.build.mcp_server import server_children
from fleetwright_operator.build.network.addresses import ServiceInfo
from fleetwright_operator.build.skill_snapshot import skill_snapshot
from fleetwright_operator.credentials.jws import signing_key
from fleetwright_operator.credentials.keyring import CardKey
from fleetwright_operator.credentials.rotating_token import RetiredToken, RotatingToken, Token
from fleetwright_operator.settings import Cilium

FULL = {
    "description": "Writes poems.",
    "version": "2.1.0",
    "provider": {"organization": "Poets", "url": "https://poets.example"},
    "documentationURL": "https://poets.example/poet",
    "iconURL": "https://poets.example/poet.png",
    "initialPrompt": "Write a first poem.",
    "idlePrompt": {"text": "Write another poem.", "every": "2h"},
    "model": {
        "name": "priced",
        "baseURL": "http://llm.models.svc/v1",
        "apiKeySecretRef": {"name": "openai", "key": "token"},
        "headersFrom": [{"name": "X-Tenant", "secretKeyRef": {"name": "gateway", "key": "tenant"}}],
        "caSecretRef": {"name": "gateway"},
        "temperature": "0.5",
        "extraBody": {"top_k": 40},
        "retries": 4,
        "timeout": "2m",
        "reasoningEffort": "low",
        "vision": True,
        "fallbacks": [
            {"name": "unpriced-here", "price": {"inputPerMillion": "1", "outputPerMillion": "2"}},
            {
                "provider": "Anthropic",
                "name": "other",
                "baseURL": "https://models.example.com",
                "apiKeySecretRef": {"name": "anthropic"},
                "price": {"inputPerMillion": "3", "outputPerMillion": "15"},
            },
        ],
        "auxiliary": {"name": "priced", "contextWindow": 64000},
    },
    "skills": [{"name": "haiku"}],
    "mcpServers": [
        {"name": "tools", "tools": {"allow": ["add"], "deny": ["drop"], "requireApproval": ["add"]}},
        {"name": "weather"},
    ],
    "approvals": {
        "tools": ["ask_helper", "weather__warn"],
        "by": "Callers",
        "bypassCallers": ["client:ops"],
        "expiry": "2h",
    },
    "callerRoles": [
        {"callers": ["client:web", "user:*"], "role": "ReadOnly"},
        {"callers": ["*"], "actions": ["ReadMemory", "Delegate"]},
    ],
    "enforcement": {
        "deny": ["tools__drop"],
        "arguments": [{"tool": "tools__add", "schema": {"properties": {"a": {"maximum": 9}}}}],
        "limits": [{"tool": "*", "max": 100, "window": "1h"}, {"tool": "ask_helper", "max": 5, "window": "30s"}],
    },
    "audit": {"mode": "Required", "maxBytes": 1048576},
    "telemetry": {
        "otlp": {
            "endpoint": "https://traces.example.com",
            "headersFrom": [{"name": "X-Token", "secretKeyRef": {"name": "traces", "key": "token"}}],
            "caSecretRef": {"name": "traces"},
            "samplePercent": 25,
        }
    },
    "budgets": [
        {"period": "Hour", "tokens": 500000},
        {
            "period": "Day",
            "usd": "25.50",
            "warnAt": "0.7",
            "onExceeded": "Pause",
            "downgrade": {"at": "0.9", "model": {"name": "priced"}},
        },
    ],
    "askHuman": True,
    "a2a": {
        "dialects": ["0.3", "1.0"],
        "callerChoices": ["ReasoningEffort", "Model"],
        "publicURL": "https://agents.example.com/poet/",
        "requireRoutableURL": True,
        "extensions": {"toolCalls": False, "reasoning": True, "modelFallbacks": True, "dataParts": True},
        "skills": [
            {"id": "haiku", "description": "unused", "outputSchema": {"properties": {"lines": {"type": "array"}}}},
            {"id": "ode", "name": "Odes", "description": "Praises.", "tags": ["long"]},
        ],
    },
    "peers": [{"name": "helper"}, {"name": "critic", "namespace": "press"}],
    "memory": {
        "storage": {"size": "5Gi", "storageClassName": "fast", "retain": False},
        "taskRetention": "72h",
        "conversationRetention": "240h",
        "maxConversationsPerCaller": 200,
        "maxBytes": "3Gi",
        "sessions": {"enabled": False},
        "knowledge": {"enabled": True, "hot": False, "topK": 3, "maxFactsPerCaller": 500},
        "skills": {
            "enabled": True,
            "subAgents": ["rhymer"],
            "topK": 4,
            "maxTokens": 1500,
            "maxSkillsPerCaller": 100,
            "curation": {"interval": "12h", "halfLife": "720h", "pruneBelow": "0.1", "mergeAbove": "0.8"},
        },
    },
    "compaction": {
        "mode": "Observe",
        "trigger": {"tokens": 1000},
        "prune": {"idleAfter": "10m", "exceptTools": ["notes__read"]},
        "summary": {"timeout": "30s"},
        "pin": {"kinds": ["Policy", "Skills"]},
        "archive": {"retain": "24h", "recallTool": False},
        "guard": {"minGain": "0.3"},
    },
    "plugins": [{"name": "units", "config": {"digits": 1}}],
    "toolSearch": {"above": 40, "always": ["tools__add"]},
    "subAgents": [
        {
            "name": "rhymer",
            "description": "Finds rhymes.",
            "instructions": "Rhyme.",
            "tools": ["tools__add", "load_skill"],
            "model": {"name": "priced", "contextWindow": 32000},
            "maxModelCalls": 7,
            "timeout": "2m",
        },
        {"name": "reader", "description": "Reads.", "instructions": "Read."},
    ],
    "limits": {
        "maxToolCalls": 3,
        "maxModelCalls": 12,
        "maxTurnTokens": 200000,
        "maxRepeatedCalls": 4,
        "maxEmptyReplies": 0,
        "maxMendedRequests": 1,
        "maxRequestBytes": 4096,
        "maxRequestsPerMinute": 60,
        "stallSeconds": 120,
        "maxWaitingTasksPerCaller": 50,
    },
    "auth": {
        "clients": [{"name": "web"}, {"name": "ops"}],
        "apiKey": True,
        "administrators": ["ops"],
        "allowedOrigins": ["https://poets.example"],
    },
    "resources": {"limits": {"memory": "1Gi"}},
    "drainSeconds": 90,
    "image": "registry.example.com/poet:1",
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccountName": "poets",
    "network": {
        "ingress": [{"from": {"namespaceSelector": {"matchLabels": {"team": "web"}}}}],
        "egress": [
            {"to": {"ipBlock": {"cidr": "0.0.0.0/0"}}, "ports": [{"port": 25}], "why": "mail"},
            {"to": {"podSelector": {"matchLabels": {"app": "db"}}}, "ports": [{"protocol": "UDP", "port": 53}]},
        ],
    },
    "podTemplate": {
        "metadata": {"labels": {"team": "poets"}},
        "spec": {
            "nodeSelector": {"pool": "agents"},
            "terminationGracePeriodSeconds": 300,
            "containers": [
                {"name": "agent", "env": [{"name": "TZ", "value": "UTC"}]},
                {"name": "proxy", "image": "registry.example.com/proxy:1"},
            ],
        },
    },
}


NOW = "2026-03-01T12:00:00Z"
DAY = 24 * 3600


def bearer(text: str) -> RotatingToken:
    return RotatingToken(Token(text, parse_timestamp(NOW), parse_timestamp(NOW) + 33 * DAY))


def turning(name: str) -> RotatingToken:
    """Return a token in the middle of a rotation, and shortly after another rotation."""
    following = Token(f"{name}-next-token", parse_timestamp(NOW) + DAY, parse_timestamp(NOW) + 34 * DAY)
    return replace(bearer(f"{name}-token"), next=following, previous=RetiredToken("0" * 64, parse_timestamp(NOW) + DAY))


@pytest.fixture
def full(objects) -> AgentParts:
    haiku = objects.skill()
    content = read_skill("haiku", haiku["spec"]["source"]["inline"]["files"])
    header = {"name": "Authorization", "secretKeyRef": {"name": "weather", "key": "bearer"}}
    remote = {"url": "https://weather.example.com/mcp", "headersFrom": [header], "caSecretRef": {"name": "openai"}}
    weather = parse_mcp_server(objects.custom(names.MCP_SERVER, "weather", {"remote": remote}))
    return AgentParts(
        agent=objects.agent_view(**FULL),
        skills={"haiku": content},
        snapshots={"haiku": SkillSnapshot(name="haiku-skill-0123456789", keys=("SKILL.md", "references..form.md"))},
        servers={"tools": objects.server_view(port=9000), "weather": weather},
        peers={
            "helper": objects.agent_view("helper", description="Helps."),
            "critic": objects.agent_view("critic", namespace="press"),
        },
        callers=(("press", "critic"), ("shop", "editor")),
        services={("models", "llm"): ServiceInfo(selector={"app": "llm"}, ports={80: "http"})},
        tokens=Tokens(
            clients={"web": bearer("web-token"), "ops": turning("ops")},
            callers={"shop/editor": turning("editor")},
            peers={"shop/helper": turning("helper"), "press/critic": bearer("critic-token")},
        ),
        pending={Token("ops-next-token").sha256: NOW},
        sign=lambda card: [{"protected": "e30", "signature": f"of-{card['name']}"}],
    )


@pytest.fixture
def priced(settings):
    price = {"inputPerMillion": "1.5", "outputPerMillion": "3"}
    return replace(settings, catalog=parse_catalog({"models": {"priced": {"contextWindow": 9000, "price": price}}}))


def test_agent_manifests_with_every_field_match_golden(full, priced, golden):
    golden("agent-full", agent_children(full, priced).manifests)


def test_agent_policies_with_fqdn_rules_match_golden(full, priced, golden):
    by_name = replace(priced, cilium=Cilium.ON, denied_ranges=(ipaddress.ip_network("192.0.2.0/24"),))
    policies = {"CiliumNetworkPolicy", "NetworkPolicy"}
    golden("agent-by-name", [body for body in agent_children(full, by_name).manifests if body["kind"] in policies])


def test_agent_manifests_of_a_minimal_spec_match_golden(objects, settings, golden):
    parts = AgentParts(agent=objects.agent_view(), tokens=Tokens(clients={"default": bearer("a-token")}))
    golden("agent-least", agent_children(parts, settings).manifests)


@pytest.fixture
def trust():
    secret = base64.urlsafe_b64encode((7).to_bytes(32, "big")).decode().rstrip("=")
    return GatewayTrust(
        issuer="http://fleetwright-gateway.fleetwright-system",
        audience="uid-of-poet",
        keys=(CardKey(signing_key(secret), secret, 0),),
    )


def test_agent_manifests_of_a_team_match_golden(objects, with_gateway, trust, golden):
    view = objects.agent_view(fleet={"parent": {"name": "lead"}, "reach": "Direct"}, sleep={"afterIdle": "15m"})
    parts = AgentParts(agent=view, tokens=Tokens(clients={"default": bearer("a-token")}, gateway=trust))
    golden("agent-of-a-team", agent_children(parts, with_gateway).manifests)


def test_agent_manifests_with_a_sleeping_peer_match_golden(objects, with_gateway, trust, golden):
    peers = {"helper": objects.agent_view("helper", description="Helps.", sleep={"afterIdle": "15m"})}
    tokens = Tokens(
        clients={"default": bearer("a-token")}, peers={"shop/helper": bearer("helper-token")}, gateway=trust
    )
    parts = AgentParts(agent=objects.agent_view(peers=[{"name": "helper"}]), peers=peers, tokens=tokens)
    golden("agent-with-sleeping-peer", agent_children(parts, with_gateway).manifests)


def test_gateway_key_file_holds_public_keys_only(trust):
    document = json.loads(trust.file)
    assert {key: document[key] for key in ("version", "issuer", "audience")} == {
        "version": 1, "issuer": trust.issuer, "audience": "uid-of-poet",
    }  # fmt: skip
    assert [sorted(key) for key in document["keys"]] == [["alg", "crv", "kid", "kty", "use", "x", "y"]]


def test_gateway_changes_no_revision_of_agents_without_a_team(objects, settings, with_gateway):
    parts = AgentParts(agent=objects.agent_view(), tokens=Tokens(clients={"default": bearer("a-token")}))
    assert agent_children(parts, settings).template == agent_children(parts, with_gateway).template


def test_mcp_server_manifests_match_golden(objects, settings, golden):
    workload = {"command": ["serve"], "args": ["$(PORT)"], "env": [{"name": "A", "value": ""}]}
    patch = {
        "metadata": {"annotations": {"team": "orders"}},
        "spec": {
            "tolerations": [{"key": "spot"}],
            "containers": [{"name": "proxy", "image": "registry.example.com/p:1"}],
        },
    }
    workload |= {"imagePullSecrets": [{"name": "registry"}], "podTemplate": patch}
    golden("mcpserver", server_children(objects.server_view(**workload), users=["poet"], settings=settings))


def test_skill_snapshot_matches_golden(objects, golden):
    haiku = objects.skill()
    content = read_skill("haiku", haiku["spec"]["source"]["inline"]["files"])
    golden("skill", [skill_snapshot(parse_skill(haiku), content)])


def test_agent_children_are_deterministic_and_set_the_revision(full, priced, objects):
    """Equal input gives equal bytes, and any change of meaning gives another revision."""
    first = agent_children(full, priced)
    assert agent_children(full, priced).manifests == first.manifests
    edited = replace(full, agent=objects.agent_view(**{**FULL, "instructions": "Other."}))
    assert agent_children(edited, priced).rendered.revision != first.rendered.revision
    helped = replace(full, peers={**full.peers, "helper": objects.agent_view("helper", description="Helps more.")})
    assert agent_children(helped, priced).rendered.revision != first.rendered.revision


def test_token_change_changes_secrets_only(full, priced):
    first = agent_children(full, priced)
    renewed = agent_children(replace(full, tokens=Tokens(clients={"web": bearer("x"), "ops": bearer("y")})), priced)
    assert renewed.rendered.revision == first.rendered.revision
    changed = [
        before["kind"] for before, after in zip(first.manifests, renewed.manifests, strict=True) if before != after
    ]
    assert set(changed) == {"Secret"}


def test_no_credential_is_written_outside_a_secret(full, priced):
    rest = [body for body in agent_children(full, priced).manifests if body["kind"] != "Secret"]
    assert not any(token in str(rest) for token in ("web-token", "ops-token", "editor-token", "helper-token"))
    assert "token'" not in repr(full.tokens)


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        pytest.param({"storage": {"ephemeral": True}}, {"ephemeralMemory": True}, id="memory that ends with the pod"),
        pytest.param({"storage": {"ephemeral": False}}, {}, id="memory that stays"),
        pytest.param({}, {}, id="memory by default"),
    ],
)
def test_agent_config_states_whether_memory_is_ephemeral(objects, settings, memory, told):
    children = agent_children(AgentParts(agent=objects.agent_view(memory=memory)), settings).manifests
    (config,) = [json.loads(body["data"]["agent.json"]) for body in children if "agent.json" in body.get("data", {})]
    assert {key: config[key] for key in ("ephemeralMemory",) if key in config} == told


def test_ephemeral_memory_uses_empty_dir_without_claim(objects, settings):
    parts = AgentParts(agent=objects.agent_view(memory={"storage": {"ephemeral": True, "size": "10Mi"}}))
    manifests = agent_children(parts, settings).manifests
    assert not [body for body in manifests if body["kind"] == "PersistentVolumeClaim"]
    volumes = manifests[-1]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "memory", "emptyDir": {"sizeLimit": "10Mi"}} in volumes


def test_minimal_public_card_has_an_extended_card_for_callers(full, priced, objects):
    secretive = replace(full, agent=objects.agent_view(**FULL | {"a2a": {"publicCard": "Minimal"}}))
    children = agent_children(secretive, priced)
    (config_map,) = [each for each in children.serving if each["metadata"]["name"] == "poet-card"]
    public, extended = (json.loads(config_map["data"][key]) for key in (names.CARD_KEY, names.EXTENDED_CARD_KEY))
    assert [skill["id"] for skill in public["skills"]] == ["chat"]
    assert [skill["id"] for skill in extended["skills"]] == ["haiku"]
    assert "haiku" not in config_map["data"][names.CARD_KEY]
    for card in (public, extended):
        assert card["capabilities"]["extendedAgentCard"] is True
        assert card["signatures"]
    (volume,) = [each for each in children.template["spec"]["volumes"] if each["name"] == "card"]
    assert "items" not in volume["configMap"], "every key is a file, also the log level that a user adds later"


def test_log_level_change_edits_the_card_config_map_only(full, priced, objects):
    louder = replace(full, agent=objects.agent_view(**FULL, logging={"level": "debug"}))
    before, after = agent_children(full, priced), agent_children(louder, priced)
    assert (before.rendered.revision, before.template_hash) == (after.rendered.revision, after.template_hash)
    changed = [new for old, new in zip(before.manifests, after.manifests, strict=True) if old != new]
    assert [(each["kind"], each["metadata"]["name"]) for each in changed] == [("ConfigMap", "poet-card")]
    assert changed[0]["data"]["log-level"] == "debug"


def test_volume_names_from_long_names_do_not_collide(objects, settings):
    long = ["s" * 62 + end for end in "ab"]
    parts = AgentParts(
        agent=objects.agent_view(skills=[{"name": name} for name in long]),
        skills={name: read_skill("haiku", objects.skill()["spec"]["source"]["inline"]["files"]) for name in long},
        snapshots={name: SkillSnapshot(name=name, keys=("SKILL.md",)) for name in long},
    )
    volumes = agent_children(parts, settings).manifests[-1]["spec"]["template"]["spec"]["volumes"]
    assert len({volume["name"] for volume in volumes}) == len(volumes)
    assert all(len(volume["name"]) <= 63 for volume in volumes)


@pytest.mark.parametrize("manifests", ["agent", "server"])
def test_pods_are_restricted_regardless_of_the_spec(full, priced, objects, manifests):
    children = (
        agent_children(full, priced).manifests
        if manifests == "agent"
        else server_children(objects.server_view(), users=[], settings=priced)
    )
    pod = children[-1]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    allowed = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= allowed


def test_suspended_agent_keeps_all_children_with_zero_replicas(full, priced, objects):
    running = agent_children(full, priced)
    suspended = agent_children(replace(full, agent=objects.agent_view(**FULL, suspend=True)), priced)
    assert suspended.rendered.revision == running.rendered.revision
    changed = [
        (before, after) for before, after in zip(running.manifests, suspended.manifests, strict=True) if before != after
    ]
    assert [(before["spec"].pop("replicas"), after["spec"].pop("replicas")) for before, after in changed] == [(1, 0)]
    assert all(before == after for before, after in changed)
