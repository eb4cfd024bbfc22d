"""Agents and users of their namespaces that misbehave: neither callers nor the rest of the registry suffer from it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from starlette.types import Message
from tests.support.gateway.calls import CALLEE, MESSAGE, caller_token
from tests.support.gateway.raw_agent import serving_agent, stay_connected
from tests.support.gateway.served_gateway import CARD, Client
from tests.support.waiting import within

from fleetwright_api import names
from fleetwright_gateway.proxy.forwarder import Forwarder, ProxyError

pytestmark = pytest.mark.process


@asynccontextmanager
async def events(client: Client, token: str) -> AsyncIterator[Callable[[], Any]]:
    async with client.request("GET", "/v1/events", token=token) as answer:
        yield lambda: answer.content.readuntil(b"\n\n")


@pytest.mark.parametrize(
    ("card", "described"),
    [
        pytest.param([1], False, id="a list"),
        pytest.param({"name": ["x"], "description": 3, "skills": "x"}, True, id="other types"),
        pytest.param({**CARD, "skills": [{"id": "a", "tags": 5}, 3]}, True, id="malformed skills"),
        pytest.param({**CARD, "skills": [{"id": [1], "tags": ["a", {}]}]}, True, id="malformed tags"),
        pytest.param({**CARD, "supportedInterfaces": [3, {"protocolVersion": 1}]}, True, id="malformed interfaces"),
    ],
)
async def test_malformed_card_does_not_break_the_registry(api, client, upstream, card, described):
    api.grants |= {("grace", "team", "")}
    token = api.add_person("grace")
    stored = api.find("ConfigMap", names.agent_card("callee"))
    async with events(client, token) as next_event:
        assert await next_event() == b": open\n\n"
        api.put({**stored, "data": {**stored["data"], names.CARD_KEY: json.dumps(card)}})
        assert b"event: card-changed" in await next_event()
    async with client.request("GET", "/v1/agents?text=callee", token=token) as answer:
        assert [each["name"] for each in (await answer.json())["items"]] == ["callee"]
    async with client.request("POST", "/search", token=token, json={"query": {"text": "callee"}}) as answer:
        assert (answer.status, len((await answer.json())["results"])) == (200, int(described))
    assert await client.status("GET", "/agents", token=token) == 200
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 200


async def test_proxy_passes_no_address_of_the_pod(api, client, upstream):
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"http://{request.host}/tasks", "Content-Location": "/x"})

    upstream.answer = redirect
    async with client.request("GET", f"{CALLEE}/tasks/", token=caller_token(api), allow_redirects=False) as answer:
        assert answer.status == 307
        assert {"Location", "Content-Location"}.isdisjoint(answer.headers)


async def test_proxy_refuses_another_protocol(process_ring):
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        writer.close()

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    forwarder = Forwarder(connect_seconds=5)
    async with serving_agent(switch) as request, within("the answer is refused"):
        with pytest.raises(ProxyError, match="status 101"):
            await forwarder.forward(request, stay_connected, send)
    await forwarder.aclose()
    assert sent == []


@pytest.mark.parametrize("verb", ["DELETE", "GET", "HEAD", "POST"])
async def test_proxy_never_repeats_a_request_whose_connection_was_lost(api, client, upstream, verb):
    async def lose(request: web.Request) -> web.StreamResponse:
        request.transport.abort()
        return web.Response()

    upstream.answer = lose
    body = {"json": MESSAGE} if verb == "POST" else {}
    async with client.request(verb, f"{CALLEE}/tasks/x", token=caller_token(api), **body) as answer:
        assert (answer.status, answer.headers["Fleetwright-Failure"]) == (502, "lost")
    assert [each.method for each in upstream.received] == [verb]
