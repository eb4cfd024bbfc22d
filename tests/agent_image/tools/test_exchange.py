"""The exchange of tokens at the gateway, when the gateway answers badly."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.tools.peers.dpop_auth import DPoPKey
from fleetwright_agent.tools.peers.exchange import ExchangeUnavailable, TokenExchange
from fleetwright_agent.tools.peers.retries import Sleep

PEER = Peer(name="cook", namespace="n", url="http://cook.n")
MINE = Delegation("mine", 60, "t")
TOKEN = {"access_token": "a", "delegation": "d", "expires_in": 300}


def exchange(
    answer: Callable[[httpx.Request], httpx.Response], read: Callable[[], str] = lambda: "pod", **more: Any
) -> Any:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return TokenExchange("http://gateway", client, DPoPKey(lambda: 0.0), read_token=read, now=lambda: 0.0, **more)


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


BUSY = httpx.Response(429, headers={"Retry-After": "2"})
LOST = httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answers", "slept", "why"),
    [
        pytest.param([LOST], [8], None, id="a gateway that restarts"),
        pytest.param([BUSY], [2], None, id="too many requests, with a time"),
        pytest.param([httpx.Response(503)], [5], None, id="not ready, without a time"),
        pytest.param([LOST, BUSY], [8, 2], None, id="two failures"),
        pytest.param([LOST] * 3, [8, 16], "not reachable: ConnectError", id="a gateway that is away"),
        pytest.param([httpx.Response(503)] * 3, [5, 10], "answered 503", id="a gateway that stays busy"),
        pytest.param([httpx.Response(429, headers={"Retry-After": "60"})], [], "answered 429", id="a long time"),
        pytest.param([httpx.Response(400, json={"error": "invalid_target"})], [], "400 invalid_target", id="refused"),
        pytest.param([httpx.ReadTimeout("late")], [], "not reachable: ReadTimeout", id="no answer in time"),
    ],
)
async def test_exchange_for_a_task_is_repeated(answers: list[Any], slept: list[float], why: str | None) -> None:
    waits: list[float] = []
    tokens = exchange(Failing(answers), sleep=_recorder(waits))
    if why is None:
        assert (await tokens.token_for(PEER, MINE, continues="")).token == "a1"
    else:
        with pytest.raises(ExchangeUnavailable, match=why):
            await tokens.token_for(PEER, MINE, continues="")
    assert waits == slept


async def test_repeated_exchange_has_a_new_proof() -> None:
    gateway = Failing([LOST])
    await exchange(gateway, sleep=_recorder([])).token_for(PEER, MINE, continues="")
    assert len({request.headers["dpop"] for request in gateway.asked}) == 2


async def test_exchange_without_a_delegation_fails_at_once() -> None:
    """The caller then uses its opaque token."""
    waits: list[float] = []
    with pytest.raises(ExchangeUnavailable):
        await exchange(Failing([LOST]), sleep=_recorder(waits)).token_for(PEER, None, continues="")
    assert waits == []


class Failing:
    """Gives these answers first, and then issues a token."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = iter(answers)
        self.asked: list[httpx.Request] = []
        self.gateway = Gateway()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = next(self.answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer or self.gateway(request)


def _recorder(waits: list[float]) -> Sleep:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return sleep


class Gateway:
    """Issues tokens, and records what the agent has sent."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.stated: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.forms.append(dict(parse_qsl(request.content.decode())))
        self.stated.append(request.headers.get("fleetwright-task"))
        number = len(self.forms)
        return httpx.Response(200, json={**TOKEN, "access_token": f"a{number}", "delegation": f"d{number}"})


async def test_exchange_gets_a_token_for_each_message() -> None:
    """A call without a message uses the newest token, and sends no delegation."""
    gateway = Gateway()
    tokens = exchange(gateway)
    mine = Delegation("mine", 60, "größe 1")
    found = [await tokens.token_for(PEER, mine, continues=task) for task in ("", "theirs", None, "")]
    assert [(each.token, each.delegation) for each in found] == [("a1", "d1"), ("a2", "d2"), ("a2", ""), ("a3", "d3")]
    assert "fleetwright-delegation" not in found[2].headers
    assert [form.get("audience_task") for form in gateway.forms] == [None, "theirs", None]
    assert {form["subject_token"] for form in gateway.forms} == {"mine"}
    assert set(gateway.stated) == {"gr%C3%B6%C3%9Fe%201"}


async def test_exchange_without_a_delegation_states_no_task() -> None:
    gateway = Gateway()
    assert (await exchange(gateway).token_for(PEER, None, continues="")).delegation == "d1"
    assert gateway.stated == [None]


async def test_exchange_replaces_a_token_that_a_peer_refused() -> None:
    tokens = exchange(Gateway())
    first = await tokens.token_for(PEER, None)
    assert await tokens.token_for(PEER, None) == first
    tokens.forget(first.token)
    assert (await tokens.token_for(PEER, None)).token == "a2"
