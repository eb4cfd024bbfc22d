"""Raw HTTP requests at the traffic port of a gateway, in front of an agent that repeats the body."""

import json
from dataclasses import replace

import pytest
import yarl
from aiohttp import web
from tests.support.gateway.calls import CALLEE, MESSAGE, caller_token
from tests.support.gateway.served_gateway import running
from tests.support.http.raw_requests import TestedPort, find_differences, read_requests, send_endless_body

REQUESTS = read_requests()


async def repeat_body(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), content_type="application/json")


@pytest.fixture
async def gateway_port(api, client, settings, upstream):
    upstream.answer = repeat_body
    async with running(api, replace(settings, requests_per_minute=100_000)) as gateway:
        yield TestedPort(
            port=yarl.URL(gateway.base).port,
            get="/.well-known/jwks.json",
            post=f"{CALLEE}/a2a",
            token=caller_token(api),
            head_status=405,
            post_text=b"7654321",
            body=json.dumps({**MESSAGE, "id": 7654321}),
        )


@pytest.mark.parametrize("group", REQUESTS)
async def test_gateway_answers_raw_requests(gateway_port, group):
    assert await find_differences(gateway_port, REQUESTS[group]) == {}


async def test_gateway_closes_the_connection_of_an_endless_body(gateway_port):
    assert await send_endless_body(gateway_port)
