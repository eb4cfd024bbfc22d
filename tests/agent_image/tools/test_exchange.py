"""The exchange of tokens at the gateway, when the gateway answers badly."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from fleetwright_agent.config.tools import Peer
from fleetwright_agent.tools.peers.dpop_auth import DPoPKey
from fleetwright_agent.tools.peers.exchange import ExchangeUnavailable, TokenExchange

PEER = Peer(name="cook", namespace="n", url="http://cook.n")
TOKEN = {"access_token": "a", "delegation": "d", "expires_in": 300}


def exchange(answer: Callable[[httpx.Request], httpx.Response], read: Callable[[], str] = lambda: "pod") -> Any:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return TokenExchange("http://gateway", client, DPoPKey(lambda: 0.0), read_token=read, now=lambda: 0.0)


def missing() -> str:
    raise FileNotFoundError(2, "No such file or directory")


def lost(_: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("late")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(httpx.Response(404), "the gateway answered 404", id="a gateway without the exchange"),
        pytest.param(httpx.Response(503, json={"error": "temporarily_unavailable"}), "503 temporarily", id="not ready"),
        pytest.param(httpx.Response(400, json={"error": "invalid_target"}), "400 invalid_target", id="a hidden agent"),
        pytest.param(httpx.Response(400, json={"error": "\x1b[2J" * 50}), "answered 400$", id="a hostile error"),
        pytest.param(httpx.Response(200, text="<html>"), "sent no token", id="no JSON"),
        pytest.param(httpx.Response(200, json={**TOKEN, "expires_in": "x"}), "sent no token", id="no time"),
        pytest.param(httpx.Response(200, json=[]), "sent no token", id="no object"),
        pytest.param(httpx.Response(302, headers={"Location": "http://evil"}), "answered 302", id="a redirect"),
    ],
)
async def test_exchange_reports_a_bad_answer(answer: httpx.Response, why: str) -> None:
    with pytest.raises(ExchangeUnavailable, match=why):
        await exchange(lambda _: answer).token_for(PEER, None)


async def test_exchange_without_a_gateway_or_a_token_says_why() -> None:
    with pytest.raises(ExchangeUnavailable, match="the gateway is not reachable: ReadTimeout"):
        await exchange(lost).token_for(PEER, None)
    with pytest.raises(ExchangeUnavailable, match="cannot be read: No such file"):
        await exchange(lost, missing).token_for(PEER, None)


async def test_exchange_asks_again_once_for_a_nonce() -> None:
    """The agent must not repeat a request without end if the gateway demands a nonce each time."""
    asked: list[httpx.Request] = []

    def demand(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(400, json={"error": "use_dpop_nonce"}, headers={"DPoP-Nonce": "n"})

    with pytest.raises(ExchangeUnavailable, match="400 use_dpop_nonce"):
        await exchange(demand).token_for(PEER, None)
    assert len(asked) == 2
