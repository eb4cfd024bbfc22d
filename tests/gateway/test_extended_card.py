"""The extended card of an agent, read through the gateway in every binding and version of A2A."""

import json
from typing import Any

import pytest
from tests.support.gateway.calls import ASLEEP, CALLEE, build_interface, caller_token
from tests.support.gateway.served_gateway import CARD

from fleetwright_api import names

AGENT = "http://callee/a2a"
OUTSIDE, INSIDE = "https://agents.example.com/agents/team/callee/a2a", "http://gateway/agents/team/callee/a2a"
INSIDE_HOST = {"Host": "fleetwright-gateway.system"}
SKILLS = [{"id": "secret", "name": "Secret", "description": "Known to callers.", "tags": ["x"]}]
V10_RPC = ("POST", "/a2a", "GetExtendedAgentCard", "1.0")
REQUESTS = [
    V10_RPC,
    ("POST", "/a2a/", "GetExtendedAgentCard", "1.0"),
    ("POST", "/%612a", "GetExtendedAgentCard", "1.0"),
    ("POST", "/a2a", "agent/getAuthenticatedExtendedCard", "0.3"),
    ("POST", "/a2a", "agent/getAuthenticatedExtendedCard", ""),
    ("GET", "/a2a/extendedAgentCard", "", "1.0"),
    ("GET", "/extendedAgentCard", "", "1.0"),
    ("GET", "/a2a/v1/card", "", "0.3"),
    ("GET", "/v1/card", "", ""),
]
DECLARED = {**CARD, "capabilities": {"extendedAgentCard": True}, "supportedInterfaces": [build_interface("1.0")]}


def extended_cards(*keys: str) -> dict[str, str]:
    urls = {names.GATEWAY_EXTENDED_CARD_KEY: OUTSIDE, names.GATEWAY_INSIDE_EXTENDED_CARD_KEY: INSIDE}
    interfaces = {key: [{**build_interface(each), "url": urls[key]} for each in ("1.0", "0.3")] for key in keys}
    cards = {key: {**DECLARED, "skills": SKILLS, "supportedInterfaces": interfaces[key]} for key in keys}
    return {key: json.dumps(card) for key, card in cards.items()}


async def ask(api: Any, client: Any, request: tuple[str, str, str, str], **headers: str) -> tuple[int, Any]:
    verb, path, method, version = request
    sent = {**headers, **({"A2A-Version": version} if version else {})}
    body = {"json": {"jsonrpc": "2.0", "id": 7, "method": method}} if method else {}
    async with client.request(verb, f"{CALLEE}{path}", token=caller_token(api), headers=sent, **body) as answer:
        return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: " ".join(each))
@pytest.mark.parametrize(
    ("keys", "host", "url"),
    [
        pytest.param((names.GATEWAY_EXTENDED_CARD_KEY,), {}, OUTSIDE, id="outside"),
        pytest.param((names.GATEWAY_EXTENDED_CARD_KEY,), INSIDE_HOST, OUTSIDE, id="one address"),
        pytest.param(
            (names.GATEWAY_EXTENDED_CARD_KEY, names.GATEWAY_INSIDE_EXTENDED_CARD_KEY), INSIDE_HOST, INSIDE, id="inside"
        ),
    ],
)
async def test_extended_card_names_the_gateway(api, client, upstream, request_, keys, host, url):
    api.add_card("callee", DECLARED, extended=extended_cards(*keys))
    status, body = await ask(api, client, request_, **host)
    card = body.get("result", body)
    assert (status, [skill["id"] for skill in card["skills"]]) == (200, ["secret"]), body
    assert url in json.dumps(card)
    assert AGENT not in json.dumps(card)
    assert upstream.received == []


async def test_extended_card_wakes_no_agent(api, client, upstream):
    api.remove("Pod", "callee-1-a")
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    api.add_card("callee", DECLARED, extended=extended_cards(names.GATEWAY_EXTENDED_CARD_KEY))
    status, body = await ask(api, client, V10_RPC)
    assert (status, body["id"], body["result"]["name"]) == (200, 7, CARD["name"])
    assert not [write for write in api.writes if write.startswith("merge")]


@pytest.mark.parametrize(
    ("card", "status", "code"),
    [
        pytest.param(CARD, 200, -32007, id="the agent has no extended card"),
        pytest.param(DECLARED, 503, None, id="the operator has not written the card"),
    ],
)
async def test_card_of_the_agent_is_never_passed_on(api, client, upstream, card, status, code):
    api.add_card("callee", card)
    found, body = await ask(api, client, V10_RPC)
    assert found == status
    assert code is None or body["error"]["code"] == code
    assert upstream.received == []
