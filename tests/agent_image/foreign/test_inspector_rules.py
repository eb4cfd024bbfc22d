"""The card and the events of one running server, checked against the rules of the A2A inspector."""

import json
import uuid

import httpx
import jsonschema
import pytest

pytestmark = [pytest.mark.process, pytest.mark.exhaustive]

# The validators of a2a-inspector check these rules. They are not published as a package.
STRINGS = {"type": "array", "items": {"type": "string"}}
INTERFACE = {"required": ["url"], "anyOf": [{"required": ["protocolBinding"]}, {"required": ["transport"]}]}
CARD = {
    "required": ["name", "description", "version", "skills"],
    "anyOf": [{"required": ["url"]}, {"required": ["supportedInterfaces"]}],
    "properties": {
        "url": {"type": "string", "pattern": "^https?://"},
        "supportedInterfaces": {"type": "array", "minItems": 1, "items": INTERFACE},
        "capabilities": {"type": "object"},
        "defaultInputModes": STRINGS,
        "defaultOutputModes": STRINGS,
        "skills": {"type": "array", "minItems": 1},
    },
}
STATES_0_3 = ["submitted", "working", "completed", "failed", "canceled", "rejected", "input-required", "auth-required"]
STATES = [*STATES_0_3, *(f"TASK_STATE_{state.upper().replace('-', '_')}" for state in STATES_0_3)]
STATUS = {
    "required": ["status"],
    "properties": {"status": {"required": ["state"], "properties": {"state": {"enum": STATES}}}},
}
PARTS = {"required": ["parts"], "properties": {"parts": {"type": "array", "minItems": 1}}}
EVENTS = {
    "task": {"allOf": [{"required": ["id"]}, STATUS]},
    "status-update": STATUS,
    "artifact-update": {"required": ["artifact"], "properties": {"artifact": PARTS}},
    "message": {"allOf": [PARTS, {"required": ["role"], "properties": {"role": {"enum": ["agent", "ROLE_AGENT"]}}}]},
}
KINDS_OF_1_0 = {
    "task": "task",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
    "message": "message",
}
REQUESTS = {
    "0.3": ("message/stream", {"role": "user", "kind": "message"}, {"kind": "text"}),
    "1.0": ("SendStreamingMessage", {"role": "ROLE_USER"}, {}),
}


def read_events(agent, version, text):
    """Return the kind and the body of each event of a stream."""
    method, message, part = REQUESTS[version]
    message = {"messageId": uuid.uuid4().hex, "parts": [{"text": text, **part}], **message}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    headers = {"Authorization": f"Bearer {agent.token}", "A2A-Version": version}
    answer = httpx.post(f"{agent.url}/a2a", json=body, headers=headers, trust_env=False).raise_for_status().text
    data = [line.removeprefix("data:") for line in answer.splitlines() if line.startswith("data:")]
    results = [json.loads(line)["result"] for line in data]
    if version == "0.3":
        return [(result["kind"], result) for result in results]
    return [(KINDS_OF_1_0[kind], event) for result in results for kind, event in result.items()]


def test_card_follows_rules_of_inspector(agent):
    headers = {"Authorization": f"Bearer {agent.token}"}
    answer = httpx.get(f"{agent.url}/.well-known/agent-card.json", headers=headers, trust_env=False)
    jsonschema.validate(answer.json(), CARD)


@pytest.mark.parametrize("version", list(REQUESTS))
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("hello", {"task", "status-update", "artifact-update"}),
        ("ask Sure?", {"task", "status-update"}),
        ("fail", {"task", "status-update"}),
    ],
)
def test_events_follow_rules_of_inspector(agent, version, text, kinds):
    events = read_events(agent, version, text)
    assert {kind for kind, _ in events} == kinds
    for kind, event in events:
        jsonschema.validate(event, EVENTS[kind])
