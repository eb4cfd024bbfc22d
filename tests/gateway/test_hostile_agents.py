"""Agents and users of their namespaces that misbehave: neither callers nor the rest of the registry suffer from it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from starlette.types import Message
from tests.support.gateway.calls import CALLEE, MESSAGE, caller_token
from tests.support.gateway.raw_agent import serving_agent, stay_connected
from tests.support.gateway.served_gateway import CARD, Client, running
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


OK = b"HTTP/1.1 200 OK\r\n"
END = b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(b"HTTP/1.1 999 Odd\r\n" + END, (502, "protocol"), id="the status 999"),
        pytest.param(b"HTTP/1.1 600 Odd\r\n" + END, (502, "protocol"), id="the status 600"),
        pytest.param(b"HTTP/1.1 599 Odd\r\n" + END, (599, None), id="the status 599"),
        pytest.param(b"HTTP/1.1 000 Odd\r\n" + END, (502, "protocol"), id="the status 0"),
        pytest.param(b"HTTP/1.1 99 Odd\r\n" + END, (502, "protocol"), id="a status of two digits"),
        pytest.param(b"HTTP/1.1 1000 Odd\r\n" + END, (502, "protocol"), id="a status of four digits"),
        pytest.param(b"HTTP/1.1 abc Odd\r\n" + END, (502, "protocol"), id="a status of letters"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", (502, "protocol"), id="another protocol"),
        pytest.param(OK + b"X-Large: " + b"y" * 20_000 + b"\r\n" + END, (502, "protocol"), id="a header of 20 KB"),
        pytest.param(OK + b"y" * 20_000 + b": x\r\n" + END, (502, "protocol"), id="a name of 20 KB"),
        pytest.param(OK + b"X-Many: y\r\n" * 40_000 + END, (502, "protocol"), id="forty thousand headers"),
        pytest.param(b"HTTP/1.1 200 " + b"y" * 20_000 + b"\r\n" + END, (502, "protocol"), id="a reason of 20 KB"),
        pytest.param(b"\x00\x01garbage\r\n\r\n", (502, "protocol"), id="garbage"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", (502, "protocol"), id="the greeting of another protocol"),
        pytest.param(b'{"jsonrpc": "2.0"}', (502, "protocol"), id="JSON without a head"),
        pytest.param(b"HTTP/2.0 200 OK\r\n" + END, (502, "protocol"), id="HTTP/2.0"),
        pytest.param(OK + b"no colon\r\n" + END, (502, "protocol"), id="a header without a colon"),
        pytest.param(OK + b"ETag: a\x00b\r\n" + END, (502, "protocol"), id="a zero byte in a header"),
        pytest.param(OK + b"ETag: a\x01b\r\n" + END, (502, "protocol"), id="a control character in a header"),
        pytest.param(OK + b"A2A-Extensions: a\x7fb\r\n" + END, (502, "protocol"), id="a DEL in a header"),
        pytest.param(OK + b"ETag: \xff\r\n" + END, (200, None), id="a byte above 127 in a header"),
        pytest.param(OK + b"Content-Length: x\r\n\r\n{}", (502, "protocol"), id="a length of letters"),
        pytest.param(OK + b"Content-Length: 2\r\n" + END, (502, "protocol"), id="two lengths"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n" + END, (502, "protocol"), id="chunks and a length"),
        pytest.param(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", (204, None), id="no content"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n" + END, (502, "protocol"), id="no content, and then content"),
        pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", (304, None), id="not modified"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n{}", (200, None), id="HTTP/1.0 without a length"),
        pytest.param(b"", (502, "lost"), id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", (502, "lost"), id="half a head"),
    ],
)
async def test_answer_that_is_not_http_is_a_protocol_failure(api, client, settings, caplog, answer, wanted):
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}}")
        writer.write(answer)
        writer.close()

    async with serving_agent(reply) as request:
        port = int(request.url.removesuffix("/a2a").rpartition(":")[2])
        async with running(api, replace(settings, agent_port=port)) as gateway, within("the gateway answers"):
            path, token = f"{CALLEE}/a2a", caller_token(api)
            async with gateway.request("POST", path, token=token, data=DUMPED, headers=JSON) as response:
                await response.read()
                assert (response.status, response.headers.get("Fleetwright-Failure")) == wanted
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


DUMPED = json.dumps({**MESSAGE, "params": {"message": {}}})
JSON = {"Content-Type": "application/json"}


async def test_headers_of_an_agent_pass_only_if_they_concern_its_answer(api, client, upstream):
    passed = {
        "A2A-Extensions": "https://example.com/extension",
        "A2A-Version": "1.0",
        "Allow": "GET, POST",
        "Cache-Control": "no-store",
        "Content-Disposition": "attachment",
        "Content-Language": "en",
        "ETag": '"1"',
        "Expires": "0",
        "Last-Modified": "Sat, 28 Nov 2026 13:00:00 GMT",
        "Retry-After": "5",
        "X-A2A-Extensions": "https://example.com/extension",
        "X-Accel-Buffering": "no",
        "X-Content-Type-Options": "nosniff",
    }
    dropped = {
        "Accept-CH": "Sec-CH-UA",
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "X-A",
        "Alt-Svc": 'h3=":443"',
        "Clear-Site-Data": '"*"',
        "Content-Location": "/x",
        "Content-Security-Policy": "default-src *",
        "Critical-CH": "Sec-CH-UA",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "DPoP-Nonce": "x",
        "Expect-CT": "max-age=1",
        "Fleetwright-Agent-Uid": "x",
        "Fleetwright-Failure": "unreachable",
        "Fleetwright-Not-Accepted": "true",
        "Link": "</x>; rel=preload",
        "Location": "/x",
        "NEL": "{}",
        "Origin-Agent-Cluster": "?1",
        "Public-Key-Pins": "x",
        "Refresh": "0; url=/x",
        "Report-To": "{}",
        "Reporting-Endpoints": 'x="/x"',
        "Server": "agent",
        "Service-Worker-Allowed": "/",
        "Set-Cookie": "a=b",
        "SourceMap": "/x",
        "Strict-Transport-Security": "max-age=1",
        "Timing-Allow-Origin": "*",
        "Via": "1.1 agent",
        "WWW-Authenticate": "Basic",
        "X-Frame-Options": "DENY",
        "X-RateLimit-Remaining": "999999",
        "X-Unknown": "x",
    }

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={**passed, **dropped, "Vary": "Accept"})

    upstream.answer = answer
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as response:
        given = response.headers
        assert {name: given.get(name) for name in passed} == passed
        assert {name: given[name] for name in dropped if given.get(name) == dropped[name]} == {}
        assert given["Vary"] == "Accept, Origin"
        assert {name.lower() for name in given} - {name.lower() for name in passed} == {
            "content-length",
            "content-type",
            "date",
            "vary",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        }
