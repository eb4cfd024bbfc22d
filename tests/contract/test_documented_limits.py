"""Limits and defaults that documents state, and that callers notice, stated as numbers and not as constants."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey
from tests.support.agent.agent_in_cluster import serve_gateway
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import CARD, Client

from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_gateway.access.forwarding import successor
from fleetwright_gateway.tokens.key_ring import KeyRing

NOW = 1_800_000_000.0


def replace_agents(times: int) -> dict[tuple[str, str], AgentView]:
    """Return agents of which each is replaced by the next one: `a0` by `a1`, and so on."""
    agents = {}
    for number in range(times + 1):
        fleet = {"fleet": {"forwardedTo": {"name": f"a{number + 1}"}}} if number < times else {}
        metadata = {"name": f"a{number}", "namespace": "team"}
        agents["team", f"a{number}"] = parse_agent({"metadata": metadata, "spec": {"instructions": "x", **fleet}})
    return agents


@pytest.mark.parametrize(
    ("times", "name"), [pytest.param(5, "a5", id="five times"), pytest.param(6, None, id="six times")]
)
def test_calls_are_forwarded_at_most_five_times(times: int, name: str | None) -> None:
    agents = replace_agents(times)
    found = successor(agents["team", "a0"], agents)
    assert (found.name if found else None) == name


def test_gateway_signs_with_a_new_key_after_five_minutes(tmp_path: Path) -> None:
    """By then every agent has the public part of the key."""
    first, second = (ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True) for _ in range(2))
    keys = [{**first, "iat": 0}, {**second, "iat": NOW}]
    (tmp_path / "keys.json").write_text(json.dumps({"keys": keys}))
    ring = KeyRing(tmp_path / "keys.json")
    used = [key.jwk["kid"] for key in (ring.signing_key(NOW + 299), ring.signing_key(NOW + 300)) if key]
    assert used == [first["kid"], second["kid"]]


def test_undecided_approvals_are_escalated_only_if_the_spec_says_so() -> None:
    silent, telling = (
        parse_agent({"metadata": {"name": "a", "namespace": "team"}, "spec": {"instructions": "x", "approvals": asks}})
        for asks in ({"tools": ["pay"]}, {"tools": ["pay"], "escalateAfter": "30m"})
    )
    assert (silent.spec.approvals.escalate_after, telling.spec.approvals.escalate_after) == (None, "30m")


@pytest.fixture
async def gateway(tmp_path: Path, process_ring: None) -> AsyncIterator[tuple[FleetApi, Client]]:
    api = FleetApi()
    async with serve_gateway(api, tmp_path / "gateway") as client:
        yield api, client


async def test_list_of_agents_has_fifty_on_a_page(gateway: tuple[FleetApi, Client]) -> None:
    api, client = gateway
    for number in range(51):
        name = f"agent-{number:02}"
        api.add_agent(name)
        api.add_card(name, {**CARD, "name": name})
    api.grants.add(("ada", "team", ""))
    async with client.request("GET", "/v1/agents", token=api.add_person("ada")) as answer:
        page: dict[str, Any] = await answer.json()
    assert (page["total"], len(page["items"])) == (51, 50)
    assert page["nextPageToken"]
