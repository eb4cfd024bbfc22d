"""Agents that the rules of the CRD refuse: the field, its bad value, and the message of the API server."""

from typing import Any

import pytest
from tests.support.bad_input.whole import AGENT

HELPER = {"name": "helper", "description": "Helps.", "instructions": "Help."}
MODEL_BEHIND_PROXY: dict[str, Any] = {
    "name": "m",
    "baseURL": "http://models.example.com/v1",
    "proxyURL": "http://proxy.example.com:3128",
}
CREDENTIALS: dict[str, dict[str, Any]] = {
    "key": {"apiKeySecretRef": {"name": "key"}},
    "header": {"headersFrom": [{"name": "X-Key", "secretKeyRef": {"name": "key", "key": "k"}}]},
}
BAD_AGENTS = [
    *(
        pytest.param(
            AGENT,
            "spec.idlePrompt",
            {"text": "Look.", "every": every},
            "idlePrompt.every must be a whole number and a unit from 1m to 24h",
            id=f"an idle prompt is not sent every {every}",
        )
        for every in ("59s", "25h", "day")
    ),
    *(
        pytest.param(
            AGENT,
            "spec.fleet",
            {"idleTimeout": timeout},
            "fleet.idleTimeout must be a whole number and a unit from 30s to 24h",
            id=f"a response is not awaited for {timeout}",
        )
        for timeout in ("29s", "25h", "day")
    ),
    pytest.param(
        AGENT, "spec.initialPrompt", "x" * 32769, "may not be more than 32768", id="the length of a first prompt"
    ),
    pytest.param(
        AGENT, "spec.limits.maxTurnTokens", 19999, "greater than or equal to 20000", id="the least limit of tokens"
    ),
    pytest.param(
        AGENT,
        "spec.subAgents",
        [HELPER | {"tools": ["task"]}],
        "a sub-agent cannot delegate or ask a person",
        id="a sub-agent gives no work",
    ),
    pytest.param(
        AGENT,
        "spec.subAgents",
        [HELPER | {"timeout": "soon"}],
        "subAgents.timeout must be a whole number and a unit",
        id="the time of a sub-agent is a duration",
    ),
    pytest.param(
        AGENT, "spec.subAgents", [HELPER, HELPER], "Duplicate value", id="sub-agents are told apart by their names"
    ),
    pytest.param(
        AGENT, "spec.plugins", [{"name": "My_Plugin"}], "plugins.name may contain lower-case", id="the name of a plugin"
    ),
    pytest.param(AGENT, "spec.toolSearch", {"always": []}, "toolSearch.above", id="a search says from when on"),
    pytest.param(
        AGENT, "spec.memory.maxBytes", "2Gi", "not be more than memory.storage.size", id="memory is within its volume"
    ),
    pytest.param(
        AGENT,
        "spec.memory.knowledge",
        {"ingest": ["tools__add"]},
        "set memory.knowledge.enabled to true",
        id="results are kept where facts are",
    ),
    pytest.param(
        AGENT,
        "spec.memory.knowledge",
        {"enabled": True, "ingest": ["recall_memory"]},
        "are stored already",
        id="what is remembered is not kept again",
    ),
    pytest.param(AGENT, "spec.memory.maxBytes", "1Mi", "at least 16Mi", id="memory has room to begin with"),
    pytest.param(AGENT, "spec.memory.conversationRetention", "30d", "such as 720h", id="retention is a duration"),
    pytest.param(
        AGENT,
        "spec.auth.administrators",
        ["ghost"],
        "must name clients of auth.clients",
        id="an administrator is a client",
    ),
    pytest.param(
        AGENT,
        "spec.model.fallbacks",
        [{"name": "b", "apiKeySecretRef": {"name": "key"}}],
        "need an address: set baseURL too",
        id="a fallback's key is for its own address",
    ),
    *(
        pytest.param(
            AGENT,
            "spec.model",
            {**MODEL_BEHIND_PROXY, **credentials},
            "model.baseURL must be an https",
            id=f"a proxy reads no {name}",
        )
        for name, credentials in CREDENTIALS.items()
    ),
    *(
        pytest.param(
            AGENT,
            "spec.model.fallbacks",
            [{**MODEL_BEHIND_PROXY, **credentials}],
            "model.fallbacks.baseURL must be an https",
            id=f"a proxy reads no {name} of a fallback",
        )
        for name, credentials in CREDENTIALS.items()
    ),
    pytest.param(
        AGENT, "spec.model.fallbacks", [{"name": "b"}] * 5, "must have at most 4 items", id="fallbacks are few"
    ),
    pytest.param(
        AGENT,
        "spec.model.caSecretRef",
        {"name": "ca", "key": "..data"},
        "model.caSecretRef.key may contain letters",
        id="the key of a model's authority is that of a Secret",
    ),
    pytest.param(AGENT, "spec.model.provider", "Else", "Unsupported value", id="a provider is one that is known"),
    pytest.param(AGENT, "spec.limits.maxRepeatedCalls", 1, "must be 0, which disables the", id="one call is no repeat"),
    pytest.param(AGENT, "spec.model.retries", -1, "greater than or equal to 0", id="no call is tried less than once"),
    pytest.param(AGENT, "metadata.name", "1st", "start with a letter", id="an agent's name is a service's name"),
    pytest.param(AGENT, "metadata.name", "a.b", "becomes a Service", id="an agent's name has no dot"),
    pytest.param(
        AGENT, "spec.instructions", None, "one of instructions and instructionsFrom", id="instructions are required"
    ),
    pytest.param(
        AGENT,
        "spec.instructionsFrom",
        {"configMapKeyRef": {"name": "a", "key": "b"}},
        "one of instructions and instructionsFrom",
        id="instructions come from one place",
    ),
    pytest.param(
        AGENT,
        "spec",
        {"model": {"name": "m"}, "instructionsFrom": {}},
        "exactly one of configMapKeyRef and secretKeyRef",
        id="instructions come from somewhere",
    ),
    pytest.param(
        AGENT,
        "spec.model.headersFrom",
        [{"name": "Host", "secretKeyRef": {"name": "a", "key": "b"}}],
        "that the HTTP client sets",
        id="a header of the connection",
    ),
    pytest.param(
        AGENT,
        "spec.model",
        {
            "name": "m",
            "apiKeySecretRef": {"name": "a"},
            "headersFrom": [{"name": "authorization", "secretKeyRef": {"name": "a", "key": "b"}}],
        },
        "must not contain Authorization together with apiKeySecretRef",
        id="one credential in one header",
    ),
    pytest.param(
        AGENT, "spec.model.proxyURL", "http://u:p@proxy:1", "without user and path", id="a proxy holds no password"
    ),
    pytest.param(
        AGENT, "spec.skillSelector", {"matchLabels": {}}, "at least 1 properties", id="a selector selects something"
    ),
    pytest.param(
        AGENT,
        "spec.allowedCallers",
        {"namespaces": {"from": "All", "selector": {"matchLabels": {"a": "b"}}}},
        "is required with from: Selector",
        id="labels belong to a selector",
    ),
    pytest.param(AGENT, "spec.executor", {"name": "dice.Dice"}, "such as dice:Dice", id="an executor is in a module"),
    pytest.param(
        AGENT,
        "spec.executor",
        {"name": "dice:Dice", "inputModes": ["png"]},
        "such as image/png",
        id="what an executor takes are media types",
    ),
    pytest.param(AGENT, "spec.model.name", "", "at least 1 chars long", id="a model has a name"),
    pytest.param(AGENT, "spec.model.baseURL", "api.openai.com", "absolute http or https", id="an address has a scheme"),
    pytest.param(
        AGENT, "spec.model.baseURL", "https://x/v1\n", "absolute http or https", id="an address holds no line break"
    ),
    pytest.param(AGENT, "spec.model.baseURL", "https://x\t/v1", "absolute http or https", id="an address holds no tab"),
    pytest.param(AGENT, "spec.model.baseURL", "https://u:p@x/v1", "without user", id="an address holds no password"),
    pytest.param(AGENT, "spec.model.temperature", "3", 'such as "0.7"', id="a temperature is at most 2"),
    pytest.param(AGENT, "spec.model.temperature", 0.7, "must be of type string", id="a temperature is text"),
    pytest.param(AGENT, "spec.model.timeout", "90", "such as 90s", id="a timeout has a unit"),
    pytest.param(
        AGENT,
        "spec.model.price",
        {"inputPerMillion": "1", "outputPerMillion": "$2"},
        'such as "10"',
        id="a price is a decimal",
    ),
    pytest.param(
        AGENT,
        "spec.model.price",
        {"inputPerMillion": "1"},
        "outputPerMillion: Required",
        id="a price has both directions",
    ),
    pytest.param(
        AGENT,
        "spec.model",
        {"name": "m", "contextWindow": 2000, "maxOutputTokens": 2000},
        "must be smaller than",
        id="the answer is part of the window",
    ),
    pytest.param(
        AGENT, "spec.model.apiKeySecretRef", {"name": "A b"}, "the name of a Secret", id="a secret has a real name"
    ),
    pytest.param(AGENT, "spec.skills", [{"name": "Haiku"}], "the name of a Skill", id="a skill has a real name"),
    pytest.param(AGENT, "spec.peers", [{"name": "a"}], "must not contain the agent itself", id="nobody calls himself"),
    pytest.param(
        AGENT, "spec.peers", [{"name": "b"}, {"name": "b"}], "must have different names", id="a peer is named once"
    ),
    pytest.param(AGENT, "spec.memory", {"storage": {"size": "much"}}, "such as 1Gi", id="a size is a quantity"),
    pytest.param(
        AGENT,
        "spec.memory",
        {"storage": {"ephemeral": True, "retain": True}},
        "remove retain",
        id="what is ephemeral cannot be retained",
    ),
    pytest.param(AGENT, "spec.compaction", {"mode": "Always"}, "Enforce", id="a mode is one of three"),
    pytest.param(
        AGENT, "spec.compaction", {"prune": {"head": 3000, "tail": 1000}}, "must be below", id="a cut result is shorter"
    ),
    pytest.param(AGENT, "spec.compaction", {"pin": {"kinds": ["All"]}}, "Policy", id="pins are of known kinds"),
    pytest.param(
        AGENT,
        "spec.compaction",
        {"trigger": {"contextFraction": "1.5"}},
        'such as "0.8"',
        id="a fraction is at most one",
    ),
    pytest.param(
        AGENT, "spec.compaction", {"trigger": {"contextFraction": "0.0"}}, "above 0", id="a fraction is above zero"
    ),
    pytest.param(AGENT, "spec.auth", {"clients": [{"name": "A"}]}, "part of a Secret's name", id="a client's name"),
    pytest.param(
        AGENT, "spec.resources", {"requests": {"memory": "lots"}}, "such as 256Mi", id="a request is a quantity"
    ),
    pytest.param(
        AGENT, "spec.resources", {"limits": {"ephemeral-storage": "lots"}}, "such as 1Gi", id="a limit is a quantity"
    ),
    pytest.param(AGENT, "spec.limits", {"maxTurnSeconds": 0}, "greater than or equal to 1", id="a limit is above zero"),
    pytest.param(AGENT, "spec.drainSeconds", 0, "greater than or equal to 1", id="a drain takes time"),
    pytest.param(AGENT, "spec.image", "my image", "an image reference", id="an image is a reference"),
    pytest.param(
        AGENT,
        "spec.approvals",
        {"escalateAfter": "soon"},
        "approvals.escalateAfter must be a whole number and a unit",
        id="an approval is escalated after a duration",
    ),
    *(
        pytest.param(
            AGENT,
            "spec.approvals",
            {"bypassCallers": [caller]},
            "must have the exact name of a client or person",
            id=f"{caller} needs approval",
        )
        for caller in ("agent:team/lead", "user:*", "client:web via agent:team/desk")
    ),
    pytest.param(
        AGENT,
        "spec.callerRoles",
        [{"callers": ["*"], "role": "ReadOnly", "actions": ["Delegate"]}],
        "needs either role or actions, and not both",
        id="a caller has a role or actions",
    ),
    pytest.param(
        AGENT, "spec.callerRoles", [{"callers": ["*"]}], "needs either role or actions", id="a caller may do something"
    ),
    pytest.param(
        AGENT,
        "spec.callerRoles",
        [{"callers": ["user:*a"], "role": "ReadOnly"}],
        "* may only be the last character",
        id="a wildcard is at the end",
    ),
    pytest.param(
        AGENT,
        "spec.callerRoles",
        [{"callers": ["ada"], "role": "ReadOnly"}],
        "callerRoles.callers must have client:<name>",
        id="a caller has a kind",
    ),
    pytest.param(
        AGENT, "spec.callerRoles", [{"callers": ["*"], "role": "Boss"}], "Unsupported value", id="a role is known"
    ),
    pytest.param(AGENT, "spec.approvals", {"by": "Anybody"}, "Unsupported value", id="an approver is of a kind"),
    pytest.param(
        AGENT, "spec.approvals", {"expiry": "soon"}, "such as 30m or 72h", id="an approval ends after a duration"
    ),
    pytest.param(
        AGENT, "spec.limits", {"stallSeconds": -1}, "should be greater than or equal to 0", id="silence is long"
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"skills": [{"id": "look up", "description": "d"}]},
        "use letters, digits",
        id="a skill's id is part of a tool's name",
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"skills": [{"id": "a", "description": "d", "outputMediaType": "json"}]},
        "such as application/json",
        id="a result has a media type",
    ),
    pytest.param(AGENT, "spec.iconURL", "icon.png", "absolute http or https", id="a picture has an address"),
    pytest.param(AGENT, "spec.serviceAccountName", "A B", "of a ServiceAccount", id="an account has a real name"),
    pytest.param(
        AGENT,
        "spec.network",
        {"policy": "None", "egress": [{"to": {"podSelector": {}}, "ports": [{"port": 1}]}]},
        "have no effect",
        id="additions to no policy",
    ),
    pytest.param(
        AGENT,
        "spec.network",
        {"egress": [{"to": {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}, "ports": [{"port": 1}]}]},
        "either ipBlock or podSelector",
        id="a range and pods at once",
    ),
    pytest.param(
        AGENT, "spec.network", {"egress": [{"to": {"podSelector": {}}}]}, "ports: Required", id="egress without a port"
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"push": {"allowedHosts": ["https://hooks.example.com"]}},
        "no scheme and no path",
        id="a receiver is a host",
    ),
    pytest.param(AGENT, "spec.a2a", {"push": {"enabled": "yes"}}, "must be of type boolean", id="push is on or off"),
    pytest.param(AGENT, "spec.a2a.dialects", ["0.3"], "must contain '1.0'", id="every agent speaks 1.0"),
    pytest.param(AGENT, "spec.a2a.dialects", ["1.0", "0.9"], "supported values", id="a version that nobody speaks"),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "agents.example.com", "absolute http", id="a public address has a scheme"
    ),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "https://me@agents.example.com", "without user", id="a public address has no user"
    ),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "http://127.0.0.1:8080/x", "others can reach", id="loopback is not public"
    ),
    pytest.param(AGENT, "spec.a2a.publicURL", "https://[::1]", "others can reach", id="loopback in IPv6 neither"),
    pytest.param(AGENT, "spec.a2a.publicURL", "http://localhost", "others can reach", id="nor by its name"),
]
