"""Clients of one agent: their token passes unchanged to this agent, and to no other."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from aiohttp import web
from tests.support.gateway.calls import CLIENT_TOKEN, list_client, put_list
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import Client, Upstream, running

from fleetwright_api import names

pytestmark = pytest.mark.process
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}
CALLEE = "/agents/team/callee/a2a"
NO_AGENT = "There is no such agent, or this caller may not call it."


async def test_client_token_passes_unchanged_to_its_agent(api: FleetApi, client: Client, upstream: Upstream) -> None:
    list_client(api, "callee")
    assert await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) == 200
    (received,) = upstream.received
    assert received.headers["Authorization"] == f"Bearer {CLIENT_TOKEN}"
    assert "fleetwright-delegation" not in {name.lower() for name in received.headers}
    assert api.reviews == []


@pytest.mark.parametrize("agent", ["caller", "hidden", "nobody"])
async def test_client_token_reaches_no_other_agent(
    api: FleetApi, client: Client, upstream: Upstream, agent: str
) -> None:
    list_client(api, "callee")
    async with client.request("POST", f"/agents/team/{agent}/a2a", token=CLIENT_TOKEN, json=MESSAGE) as answer:
        assert (answer.status, (await answer.json())["error"]["message"]) == (404, NO_AGENT)
    assert upstream.received == []


async def test_client_sees_only_its_agent_in_the_registry(api: FleetApi, client: Client) -> None:
    list_client(api, "callee")
    async with client.request("GET", "/v1/agents", token=CLIENT_TOKEN) as answer:
        found = await answer.json()
    assert ([each["name"] for each in found["items"]], found["total"]) == (["callee"], 1)
    assert await client.status("GET", "/v1/agents/team/caller", token=CLIENT_TOKEN) == 404
    async with client.request("GET", "/v1/agents/team/callee", token=CLIENT_TOKEN) as answer:
        assert (await answer.json())["reason"] == "is a client of the agent"


UNKNOWN = {
    "a token that no agent lists": lambda api: list_client(api, "callee", "another-token" + "y" * 40),
    "an expired token": lambda api: list_client(api, "callee", expires="2026-03-01T12:00:00Z"),
    "a token without a list": lambda _: None,
    "a list of another owner": lambda api: put_list(
        api,
        "callee",
        {"version": 1, "clients": [{"name": "shop", "sha256": sha256(CLIENT_TOKEN.encode()).hexdigest()}]},
        {"kind": names.AGENT, "name": "callee", "uid": "forged", "controller": True},
    ),
    "a damaged list": lambda api: put_list(
        api,
        "callee",
        {"clients": [3, {"sha256": 1}]},
        {"kind": names.AGENT, "name": "callee", "uid": api.uid("callee")},
    ),
}


@pytest.mark.parametrize("write", [pytest.param(each, id=name) for name, each in UNKNOWN.items()])
async def test_unknown_client_gets_401_before_any_lookup(
    api: FleetApi, client: Client, upstream: Upstream, write: Any
) -> None:
    """The answer is equal for every agent, and neither the API server nor an agent is asked."""
    write(api)
    answers = []
    for agent in ("callee", "nobody"):
        async with client.request("POST", f"/agents/team/{agent}/a2a", token=CLIENT_TOKEN, json=MESSAGE) as answer:
            answers.append((answer.status, await answer.text()))
    assert answers[0][0] == 401
    assert answers[0] == answers[1]
    assert (api.reviews, api.access_reviews, upstream.received) == ([], [], [])


async def test_client_token_of_two_agents_follows_the_path(api: FleetApi, client: Client, upstream: Upstream) -> None:
    """Another namespace can list the same digest, but neither gets the token nor takes the client away."""
    list_client(api, "callee")
    api.add_running_agent("thief", namespace="aaa")
    list_client(api, "thief", namespace="aaa")
    assert await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) == 200
    assert len(upstream.received) == 1


async def test_client_token_gives_no_delegation_and_no_exchange(
    api: FleetApi, client: Client, upstream: Upstream
) -> None:
    list_client(api, "callee")
    headers = {"Fleetwright-Delegation": "x"}
    assert await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE, headers=headers) == 403
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": CLIENT_TOKEN,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "audience": "team/callee",
    }
    async with client.request("POST", "/oauth/token", data=form) as answer:
        assert (answer.status, (await answer.json())["error"]) == (400, "invalid_grant")
    assert upstream.received == []


async def test_client_token_that_the_agent_refuses_gets_401(api: FleetApi, client: Client, upstream: Upstream) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=401)

    list_client(api, "callee")
    upstream.answer = refuse
    async with client.request("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) as answer:
        assert answer.status == 401
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


async def test_client_is_limited_by_its_own_identity(api: FleetApi, settings: Any, upstream: Upstream) -> None:
    """Each client of an agent has a separate limit of requests."""
    api.add_running_agent("callee")
    list_client(api, "callee")
    async with running(api, replace(settings, requests_per_minute=2)) as client:
        statuses = [await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) for _ in range(3)]
        assert statuses == [200, 200, 429]
        other = "another-client-token-" + "z" * 30
        list_client(api, "callee", other)
        assert await client.status("POST", CALLEE, token=other, json=MESSAGE) == 200


async def test_client_that_is_removed_is_unknown_at_once(api: FleetApi, client: Client) -> None:
    list_client(api, "callee")
    assert await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) == 200
    api.remove("ConfigMap", names.agent_gateway_clients("callee"), namespace="team")
    assert await client.status("POST", CALLEE, token=CLIENT_TOKEN, json=MESSAGE) == 401


ASLEEP = {"phase": "Asleep", "sleep": {"since": "2026-03-01T11:00:00Z"}}


def wakes(api: FleetApi) -> int:
    return sum(write.startswith(f"merge {names.AGENT}") for write in api.writes)


async def test_client_wakes_its_agent_within_a_limit_of_its_own(api: FleetApi, settings: Any) -> None:
    """Each client may wake its agent 20 times a minute. An unknown token wakes no agent."""
    api.add_agent("sleeper", spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    api.add_deployment("sleeper")
    list_client(api, "sleeper")
    path = "/agents/team/sleeper/a2a"
    async with running(api, replace(settings, wake_seconds=0.001)) as client:
        assert await client.status("POST", path, token="unknown-token-" + "u" * 40, json=MESSAGE) == 401
        assert wakes(api) == 0
        statuses = [await client.status("POST", path, token=CLIENT_TOKEN, json=MESSAGE) for _ in range(21)]
        assert (set(statuses[:20]), statuses[20]) == ({503}, 429)
        assert wakes(api) == 20
        other = "another-client-token-" + "z" * 30
        list_client(api, "sleeper", other)
        assert await client.status("POST", path, token=other, json=MESSAGE) == 503
