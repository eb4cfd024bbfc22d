"""The proxy over real sockets: what passes to the agent and back, and what callers cannot do."""

import asyncio
import io
import json
from dataclasses import replace

import pytest
import yarl
from aiohttp import web
from tests.support.gateway.calls import ASLEEP, CALLEE, MESSAGE, caller_token
from tests.support.gateway.fleet_api import NOW
from tests.support.gateway.served_gateway import URL, Client, Upstream, running
from tests.support.waiting import await_until, within

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.keys import KeySet
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, verify
from fleetwright_api import names

pytestmark = pytest.mark.process


async def claims_received(client: Client, upstream: Upstream, audience: str, *, now: float = NOW) -> PairTokenClaims:
    async with client.request("GET", "/.well-known/jwks.json") as answer:
        keys = KeySet((await answer.json())["keys"])
    scheme, _, token = upstream.received[-1].headers["Authorization"].partition(" ")
    assert scheme == "Bearer"
    return verify(token, keys, issuer=URL, audience=audience, now=now)


async def test_proxy_passes_a_message_of_an_agent_with_a_pair_token(api, client, upstream):
    async with client.request("POST", f"{CALLEE}/a2a?x=%2F", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, await answer.json()) == (200, {"jsonrpc": "2.0", "id": 1, "result": {"seen": 1}})
        limits = [answer.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")]
        assert limits == ["600", "599", "1"]
    (received,) = upstream.received
    assert (received.method, received.path, json.loads(received.body)) == ("POST", "/a2a?x=%2F", MESSAGE)
    claims = await claims_received(client, upstream, api.uid("callee"))
    assert (claims.subject, claims.actor.subject, claims.actor.uid) == (
        "agent:team/caller",
        "agent:team/caller",
        api.uid("caller"),
    )
    assert claims.expires_at - claims.issued_at == 60


async def test_proxy_passes_a_message_of_a_person_who_may_invoke(api, client, upstream):
    token = api.add_person("ada")
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 404
    api.grants.add(("grace", "team", "callee"))
    token = api.add_person("grace")
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 200
    assert await client.status("POST", "/agents/team/hidden/a2a", token=token, json=MESSAGE) == 404
    claims = await claims_received(client, upstream, api.uid("callee"))
    assert (claims.subject, claims.actor.subject, claims.actor.uid) == ("user:grace", "user:grace", "")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/agents/team/hidden/a2a", id="an agent that the caller may not call"),
        pytest.param("/agents/team/nobody/a2a", id="no such agent"),
        pytest.param("/agents/other/callee/a2a", id="another namespace"),
        pytest.param("/agents/team/callee/%2e%2e/status", id="a path that leads elsewhere"),
        pytest.param("/agents/TEAM/callee/", id="no name of a namespace"),
    ],
)
async def test_proxy_answers_404_for_every_agent_that_is_hidden(api, client, upstream, path):
    """The answers are equal, so a caller cannot tell a hidden agent from a missing one."""
    async with client.request("GET", path, token=caller_token(api)) as answer:
        text = (await answer.json())["error"]
    assert answer.status == 404
    assert text["message"] == "There is no such agent, or this caller may not call it."
    assert upstream.received == []


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        pytest.param("callee", {"fleet": {}}, id="the callee has no reach"),
        pytest.param("caller", {"fleet": {}}, id="the caller has no reach"),
        pytest.param("callee", {"fleet": {"reach": "Direct", "parent": "lead"}}, id="the callee has another parent"),
    ],
)
async def test_proxy_answers_404_as_soon_as_an_edge_is_gone(api, client, upstream, name, spec):
    token = caller_token(api)
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 200
    api.add_agent(name, spec=spec)
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 404
    assert len(upstream.received) == 1


@pytest.mark.parametrize(
    ("successors", "status", "location"),
    [
        pytest.param({"callee": "second"}, 308, "second", id="one step"),
        pytest.param({"callee": "second", "second": "third"}, 308, "third", id="two steps"),
        pytest.param({"callee": "hidden"}, 410, None, id="a successor that the caller may not call"),
        pytest.param({"callee": "nobody"}, 410, None, id="no such successor"),
        pytest.param({"callee": "second", "second": "callee"}, 410, None, id="a cycle"),
    ],
)
async def test_proxy_redirects_callers_of_a_replaced_agent(api, client, upstream, successors, status, location):
    for name in ("second", "third"):
        api.add_running_agent(name, spec={"fleet": {"reach": "Direct"}})
    for name, successor in successors.items():
        api.add_agent(name, spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": successor}}})
    await client.gateway.synchroniser.fill_again()
    token = caller_token(api)
    async with client.request("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE, allow_redirects=False) as answer:
        assert answer.status == status
        wanted = None if location is None else f"https://agents.example.com/agents/team/{location}/a2a"
        assert answer.headers.get("Location") == wanted
    async with client.request("GET", "/v1/agents", token=token) as answer:
        listed = {each["name"] for each in (await answer.json())["items"]}
    assert listed.isdisjoint(successors)
    assert upstream.received == []


@pytest.mark.parametrize(
    ("path", "location"),
    [
        pytest.param("/tasks", "/tasks", id="no query"),
        pytest.param("/tasks?", "/tasks", id="an empty query"),
        pytest.param("/tasks?contextId=c%2F1&pageToken=t+2", "/tasks?contextId=c%2F1&pageToken=t+2", id="a query"),
    ],
)
async def test_redirect_of_a_replaced_agent_keeps_the_query(api, client, path, location):
    api.add_running_agent("second", spec={"fleet": {"reach": "Direct"}})
    api.add_agent("callee", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": "second"}}})
    token = caller_token(api)
    async with client.request("GET", f"{CALLEE}{path}", token=token, allow_redirects=False) as answer:
        assert answer.status == 308
        assert answer.headers["Location"] == f"https://agents.example.com/agents/team/second{location}"


async def test_proxy_strips_headers_that_claim_an_identity(api, client, upstream):
    forged = {
        "X-Forwarded-User": "admin",
        "X-Remote-User": "admin",
        "X-API-Key": "secret",
        "X-Workspace-ID": "other",
        "Forwarded": "for=1.2.3.4",
        "Cookie": "session=1",
        "Impersonate-User": "admin",
        "DPoP": "proof",
        "Fleetwright-Task": "t",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "A2A-Version": "1.0",
    }
    assert await client.status("POST", CALLEE + "/a2a", token=caller_token(api), json=MESSAGE, headers=forged) == 200
    headers = {name.lower(): value for name, value in upstream.received[0].headers.items()}
    assert set(headers) == {
        "accept",
        "a2a-version",
        "authorization",
        "content-length",
        "content-type",
        "fleetwright-delegation",
        "host",
        "traceparent",
        "user-agent",
    }
    assert headers["traceparent"] == forged["traceparent"]


async def test_proxy_never_forwards_a_kubernetes_token(api, client, upstream):
    own = caller_token(api)
    await client.status("POST", f"{CALLEE}/a2a", token=own, json=MESSAGE)
    (received,) = upstream.received
    assert own not in json.dumps(received.headers)
    assert own.encode() not in received.body


async def test_proxy_streams_events_as_they_arrive(api, client, upstream):
    released = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await released.wait()
        await response.write(b"data: second\n\n")
        return response

    upstream.answer = stream
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert await answer.content.readany() == b"data: first\n\n"
        released.set()
        assert await answer.content.read() == b"data: second\n\n"
        assert answer.headers["Content-Type"] == "text/event-stream"


async def test_proxy_finishes_a_call_whose_caller_disconnects(api, client, upstream):
    begun, released = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        begun.set()
        await released.wait()
        return web.json_response({})

    upstream.answer = slow
    calling = asyncio.create_task(client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE))
    await begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await asyncio.sleep(0.05)
    released.set()
    async with within("the agent's call ends"):
        await upstream.ended.wait()


async def test_proxy_closes_the_stream_of_a_caller_who_left(api, client, upstream):
    ended = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b": keep-alive\n\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    upstream.answer = stream
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        await answer.content.readany()
    async with within("the stream of the agent ends"):
        await ended.wait()


async def test_proxy_aborts_a_response_that_the_agent_cut(api, client, upstream):
    """The caller sees a broken connection, because the answer must not look complete."""

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        request.transport.close()
        return response

    upstream.answer = cut
    with pytest.raises(Exception, match=r"payload|closed|reset|disconnected"):
        await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE)


async def test_proxy_refuses_a_body_above_one_mebibyte(api, client, upstream):
    big, headers = io.BytesIO(b"x" * (1024 * 1024 + 1)), {"Content-Type": "application/json"}
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), data=big, headers=headers) == 413
    assert upstream.received == []


async def test_proxy_bounds_the_answer_of_an_agent(api, client, upstream):
    async def huge(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * (10 * 1024 * 1024 + 1))

    upstream.answer = huge
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 502


async def test_proxy_reports_an_agent_that_refuses_its_token(api, client, upstream):
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})

    upstream.answer = refuse
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Fleetwright-Failure"]) == (502, "refused")


async def test_proxy_says_that_a_lost_request_may_have_arrived(api, client, upstream):
    async def lose(request: web.Request) -> web.StreamResponse:
        request.transport.abort()
        return web.Response()

    upstream.answer = lose
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Fleetwright-Failure"]) == (502, "lost")


async def test_proxy_reports_a_pod_that_cannot_be_reached(api, client, upstream):
    api.edit("Pod", "callee-1-a", {})
    api.set_status(
        "Pod",
        "callee-1-a",
        {"phase": "Running", "podIP": "127.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]},
    )
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (502, "2")
        assert answer.headers["Fleetwright-Failure"] == "unreachable"


async def test_proxy_answers_503_without_a_ready_pod(api, client, upstream):
    api.remove("Pod", "callee-1-a")
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


@pytest.mark.parametrize(
    ("host", "key"),
    [
        pytest.param("agents.example.com", names.GATEWAY_CARD_KEY, id="outside"),
        pytest.param("fleetwright-gateway.system", names.GATEWAY_INSIDE_CARD_KEY, id="inside"),
        pytest.param("fleetwright-gateway.system.svc.x:80", names.GATEWAY_INSIDE_CARD_KEY, id="inside, in full"),
    ],
)
async def test_proxy_serves_the_operators_card_byte_for_byte(api, client, upstream, host, key):
    path = f"{CALLEE}/.well-known/agent-card.json"
    async with client.request("GET", path, token=caller_token(api), headers={"Host": host}) as answer:
        text, tag = await answer.text(), answer.headers["ETag"]
        assert answer.headers["Last-Modified"] == "Sun, 01 Mar 2026 12:00:00 GMT"
    assert text == api.find("ConfigMap", "callee-card")["data"][key]
    known_tag = {"If-None-Match": tag, "Host": host}
    assert await client.status("GET", path, token=caller_token(api), headers=known_tag) == 304


@pytest.mark.parametrize("name", ["agent-card.json", "agent%2Dcard.json"])
async def test_proxy_serves_the_card_without_the_agent(api, client, upstream, name):
    path = f"{CALLEE}/.well-known/{name}"
    async with client.request("GET", path, token=caller_token(api)) as answer:
        tag = answer.headers["ETag"]
    known = {"If-None-Match": tag}
    assert await client.status("GET", path, token=caller_token(api), headers=known) == 304
    assert await client.status("GET", "/agents/team/hidden/.well-known/agent-card.json", token=caller_token(api)) == 404
    assert upstream.received == []


@pytest.mark.parametrize(
    "path", ["/agents/team/callee/a2a", "/agents/team/nobody/", "/agents/team/callee/.well-known/agent-card.json"]
)
async def test_proxy_requires_a_credential_before_any_lookup(api, client, upstream, path):
    async with client.request("GET", path) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="fleetwright-gateway"'
    assert api.access_reviews == api.reviews == []


async def test_proxy_limits_the_rate_of_each_caller(api, settings, upstream):
    api.add_running_agent("caller", spec={"fleet": {"reach": "Direct"}})
    api.add_running_agent("callee", spec={"fleet": {"reach": "Direct"}})
    async with running(api, replace(settings, requests_per_minute=2)) as client:
        token = caller_token(api)
        assert [await client.status("GET", f"{CALLEE}/x", token=token) for _ in range(3)] == [200, 200, 429]
        async with client.request("GET", f"{CALLEE}/x", token=token) as answer:
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.headers["X-RateLimit-Remaining"] == "0"


async def test_gateway_answers_503_until_its_cache_is_filled(api, settings, upstream):
    token = api.add_running_agent("callee")
    async with running(api, settings, filled=False) as client:
        async with client.request("GET", f"{CALLEE}/x", token=token) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
            assert "the cache of agents is not filled yet" in (await answer.json())["error"]["message"]
        assert await client.status("GET", f"{CALLEE}/x") == 401


SLEEPY = {"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}


def let_callee_sleep(api):
    api.remove("Pod", "callee-1-a")
    api.add_agent("callee", spec=SLEEPY, status=ASLEEP)


async def held_message(api, client, token):
    """Send a message to the sleeping callee, and return it once the wake was requested."""
    url, headers = f"{client.base}{CALLEE}/a2a", {"Authorization": f"Bearer {token}"}
    waiting = asyncio.create_task(client.session.post(url, headers=headers, json=MESSAGE, allow_redirects=False))
    await await_until(
        lambda: "merge Agent callee" in api.writes, "the gateway asks for a wake", shown=lambda: api.writes
    )
    return waiting


async def test_proxy_holds_a_request_until_the_agent_is_awake(api, client, upstream):
    """The card is answered without waking. The message waits, and reaches the new pod."""
    let_callee_sleep(api)
    token = caller_token(api)
    assert await client.status("GET", f"{CALLEE}/.well-known/agent-card.json", token=token) == 200
    assert not [write for write in api.writes if write.startswith("merge")]
    waiting = await held_message(api, client, token)
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    async with await waiting as answer:
        assert answer.status == 200
        assert int(answer.headers["Fleetwright-Cold-Start"]) >= 0
    assert [received.path for received in upstream.received] == ["/readyz", "/a2a"]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        pytest.param("callee", {**SLEEPY, "fleet": {}}, id="the callee has no reach"),
        pytest.param("caller", {"fleet": {}}, id="the caller has no reach"),
    ],
)
async def test_withdrawn_permission_refuses_a_waiting_message(api, client, upstream, name, spec):
    let_callee_sleep(api)
    waiting = await held_message(api, client, caller_token(api))
    api.add_agent(name, spec=spec, status=ASLEEP if name == "callee" else None)
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    async with await waiting as answer:
        assert answer.status == 404
    assert [received.path for received in upstream.received] == ["/readyz"]


async def test_message_for_an_agent_that_was_replaced_meanwhile_is_redirected(api, client, upstream):
    api.add_running_agent("second", spec={"fleet": {"reach": "Direct"}})
    let_callee_sleep(api)
    waiting = await held_message(api, client, caller_token(api))
    api.add_agent("callee", spec={**SLEEPY, "fleet": {"reach": "Direct", "forwardedTo": {"name": "second"}}})
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    async with await waiting as answer:
        assert answer.status == 308
        assert answer.headers["Location"].endswith("/agents/team/second/a2a")


@pytest.mark.usefixtures("client")
async def test_message_that_has_waited_gets_a_new_token(api, settings, upstream):
    """A pair token lives for a minute, and a wake may take longer."""
    seconds = 0
    async with running(api, settings, clock=Clock(now_ns=lambda: int((NOW + seconds) * 1e9))) as gateway:
        let_callee_sleep(api)
        waiting = await held_message(api, gateway, caller_token(api))
        seconds = 90
        api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
        async with await waiting as answer:
            assert answer.status == 200
        claims = await claims_received(gateway, upstream, api.uid("callee"), now=NOW + seconds)
    assert claims.issued_at == NOW + seconds


async def test_proxy_wakes_no_agent_for_a_caller_who_may_not_call_it(api, client, upstream):
    api.remove("Pod", "hidden-1-a")
    api.add_agent("hidden", spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    assert await client.status("POST", "/agents/team/hidden/a2a", token=caller_token(api), json=MESSAGE) == 404
    assert await client.status("POST", "/agents/team/hidden/a2a", token="a.b.c", json=MESSAGE) == 401
    assert not [write for write in api.writes if write.startswith("merge")]


@pytest.mark.parametrize(
    ("text", "status"),
    [("5", 200), ("0", 200), ("-1", 400), ("1e3", 400), ("86401", 400), ("0000000009", 400), ("soon", 400)],
)
async def test_proxy_checks_the_timeout_of_a_caller(api, client, upstream, text, status):
    headers = {"X-Timeout": text}
    assert await client.status("GET", f"{CALLEE}/x", token=caller_token(api), headers=headers) == status
    assert len(upstream.received) == (status == 200)


async def test_proxy_ends_a_response_without_any_byte(api, client, upstream):
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.json_response({})

    upstream.answer = silent
    token, headers = caller_token(api), {"X-Timeout": "1"}
    assert await client.status("GET", f"{CALLEE}/x", token=token, headers=headers) == 504
    api.add_running_agent("callee", spec={"fleet": {"reach": "Direct", "idleTimeout": "10s"}})
    started = asyncio.get_running_loop().time()
    assert await client.status("GET", f"{CALLEE}/x", token=token) == 504
    assert 10 <= asyncio.get_running_loop().time() - started < 20


async def test_proxy_repairs_an_envelope_on_request(api, client, upstream):
    token, simple = caller_token(api), {"method": "SendMessage", "params": {"message": {"parts": []}}}
    headers = {"Fleetwright-Repair": "envelope"}
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=simple, headers=headers) == 200
    found = json.loads(upstream.received[0].body)
    assert (found["jsonrpc"], found["method"]) == ("2.0", "SendMessage")
    assert len(found["id"]) == len(found["params"]["message"]["messageId"]) == 36
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=simple) == 200
    assert json.loads(upstream.received[1].body) == simple
    other = {"Fleetwright-Repair": "body"}
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, json=simple, headers=other) == 400
    raw = {"data": b"{", "headers": {**headers, "Content-Type": "application/json"}}
    assert await client.status("POST", f"{CALLEE}/a2a", token=token, **raw) == 400


@pytest.mark.parametrize(
    ("origin", "status"), [("https://agents.example.com", 200), ("https://evil.example.com", 403), (None, 200)]
)
async def test_gateway_refuses_web_pages_of_other_origins(api, client, upstream, origin, status):
    headers = {"Origin": origin} if origin else {}
    assert await client.status("GET", "/v1/agents", token=caller_token(api), headers=headers) == status
    assert (
        await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE, headers=headers) == status
    )


async def test_gateway_lets_pages_use_the_documented_headers(api, client, upstream):
    page = {"Origin": "https://agents.example.com"}
    sent = {"authorization", "a2a-version", "a2a-extensions", "content-type", "fleetwright-repair", "x-timeout"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ",".join(sorted(sent))}
    async with client.request("OPTIONS", f"{CALLEE}/a2a", headers=page | asked) as answer:
        assert answer.status == 200
        assert sent <= set(answer.headers["Access-Control-Allow-Headers"].lower().split(", "))
    unknown = asked | {"Access-Control-Request-Headers": "x-forwarded-user"}
    assert await client.status("OPTIONS", f"{CALLEE}/a2a", headers=page | unknown) == 400
    read = {
        "fleetwright-cold-start",
        "fleetwright-failure",
        "retry-after",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    }
    async with client.request("GET", f"{CALLEE}/x", token=caller_token(api), headers=page) as answer:
        assert read <= set(answer.headers["Access-Control-Expose-Headers"].lower().split(", "))


async def test_proxy_logs_the_caller_and_no_secret(api, client, upstream, caplog):
    caplog.set_level("INFO", logger="fleetwright_gateway")
    token = caller_token(api)
    await client.status("POST", f"{CALLEE}/a2a", token=token, json={**MESSAGE, "params": {"text": "sesame"}})
    await client.status("GET", f"{CALLEE}/x")
    known, unknown = [record for record in caplog.records if record.message == "request"]
    assert (known.method, known.agent, known.caller, known.status) == ("POST", "team/callee", "agent:team/caller", 200)
    assert (unknown.status, hasattr(unknown, "caller")) == (401, False)
    told = "".join(str(vars(record)) for record in caplog.records)
    assert not [secret for secret in (token, "sesame", upstream.received[0].headers["Authorization"]) if secret in told]


async def test_proxy_refuses_an_agent_that_calls_itself(api, client, upstream):
    """Its own card is shown, as an agent may see itself."""
    own, token = "/agents/team/caller", caller_token(api)
    assert await client.status("POST", f"{own}/a2a", token=token, json=MESSAGE) == 400
    assert await client.status("GET", f"{own}/.well-known/agent-card.json", token=token) == 200
    assert upstream.received == []


@pytest.mark.parametrize("sent", [b"", b'{"jsonrpc": "2.0"'], ids=["no byte", "a part"])
async def test_proxy_forwards_no_body_that_is_incomplete(api, client, upstream, sent):
    url = yarl.URL(client.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {CALLEE}/a2a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {caller_token(api)}\r\nContent-Length: 100\r\n\r\n"
    )
    writer.write(head.encode() + sent)
    writer.write_eof()
    async with within("the proxy closes the connection"):
        assert await reader.read() == b""
    # The connection may close before the proxy has ended the request.
    registry = client.gateway.metrics.registry
    wanted = {"route": "agents", "status": "499"}
    await await_until(
        lambda: registry.get_sample_value("fleetwright_gateway_requests_total", wanted), "the request is counted"
    )
    assert upstream.received == []
    writer.close()
