"""Which requests wake a sleeping agent: the tables, and the requests of a caller through the gateway."""

import asyncio
import json

import pytest
from aiohttp import web
from tests.support.gateway.calls import ASLEEP, CALLEE, MESSAGE, caller_token
from tests.support.waiting import await_until, within

from fleetwright_a2a.bindings.rest import rest_routes
from fleetwright_a2a.dialects.dialect import Operation
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v03_rest import V03_REST
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_api import names
from fleetwright_gateway.proxy.request_kinds import CARD_METHODS, WAKING_METHODS, may_wake, reads_extended_card

CARDS = ("/extendedAgentCard", "/card")


def call(method: str, **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}, **more}).encode()


def test_methods_are_those_of_all_dialects():
    spoken = {name: found for dialect in (V10, V03, V01) for name, found in dialect.methods.items()}
    assert {name for name, found in spoken.items() if found is not Operation.EXTENDED_CARD} == WAKING_METHODS
    assert {name for name, found in spoken.items() if found is Operation.EXTENDED_CARD} == CARD_METHODS


def test_may_wake_accepts_every_path_of_the_agent_but_cards():
    routes = rest_routes(None, [V10, V03_REST])  # type: ignore[arg-type] # nothing is called
    served = [(verb, route.path) for route in routes for verb in route.methods]
    assert len(served) > 40
    for verb, path in served:
        place = path.replace("{task}", "t-1").replace("{config}", "c%201")
        assert may_wake(verb, place, b"") is not path.endswith(CARDS), (verb, place)
        assert reads_extended_card(verb, place, b"") is path.endswith(CARDS), (verb, place)


@pytest.mark.parametrize(
    ("verb", "path", "body", "wakes"),
    [
        ("POST", "/a2a", call("SendMessage"), True),
        ("POST", "/a2a/", call("tasks/send"), True),
        ("POST", "/%612a", call("SendMessage"), True),
        ("POST", "/message%3Asend", b"{}", True),
        ("GET", "/tasks%2Ft-1", b"", True),
        ("POST", "/message%253Asend", b"{}", False),
        ("POST", "/a2a", call("GetExtendedAgentCard"), False),
        ("POST", "/a2a", call("agent/getAuthenticatedExtendedCard"), False),
        ("POST", "/a2a", call("SendMessages"), False),
        ("POST", "/a2a", call("SendMessage", jsonrpc="1.0"), False),
        ("POST", "/a2a", b"[" + call("SendMessage") + b"]", False),
        ("POST", "/a2a", b"{", False),
        ("POST", "/a2a", b"", False),
        ("GET", "/a2a", b"", False),
        ("PUT", "/message:send", b"{}", False),
        ("GET", "/message:send", b"", False),
        ("POST", "/message:send/x", b"{}", False),
        ("POST", "/x/message:send", b"{}", False),
        ("POST", "/v1/a2a/message:send", b"{}", False),
        ("GET", "/", b"", False),
        ("GET", "/.well-known/agent-card.json", b"", False),
        ("GET", "/.well-known/tasks", b"", False),
        ("GET", "/tasksx", b"", False),
        ("GET", "/readyz", b"", False),
    ],
)
def test_may_wake_needs_a_message_or_a_task(verb, path, body, wakes):
    assert may_wake(verb, path, body) is wakes


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        pytest.param("GET", "/x", b"", id="unknown path"),
        pytest.param("POST", "/.well-known/agent-card.json", b"{}", id="card, by POST"),
        pytest.param("POST", "/a2a", call("Wake"), id="unknown method"),
        pytest.param("POST", "/a2a", b"wake up", id="no JSON"),
    ],
)
async def test_proxy_wakes_no_agent_without_a_message(api, client, upstream, verb, path, body):
    api.remove("Pod", "callee-1-a")
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    typed = {"Content-Type": "application/json"}
    async with client.request(verb, f"{CALLEE}{path}", token=caller_token(api), data=body, headers=typed) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
        assert "sleeps" in await answer.text()
    assert not [write for write in api.writes if write.startswith("merge")]


@pytest.mark.parametrize(
    ("peers", "allowed", "status"),
    [
        pytest.param([{"name": "callee"}], None, 200, id="declared, and allowed by default"),
        pytest.param([{"name": "callee"}], {"agents": [{"name": "caller"}]}, 200, id="declared and allowed"),
        pytest.param([{"name": "callee"}], {}, 404, id="declared and not allowed"),
        pytest.param([], None, 404, id="not declared"),
    ],
)
async def test_message_wakes_a_declared_peer_without_a_reach(api, client, upstream, peers, allowed, status):
    api.remove("Pod", "callee-1-a")
    rule = {} if allowed is None else {"allowedCallers": allowed}
    api.add_agent("caller", spec={"peers": peers})
    api.add_agent("callee", spec={**rule, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)

    def on_change(_: str, kind: str, body: dict) -> None:
        asked = names.WAKE_ANNOTATION in body["metadata"].get("annotations", {})
        if kind == names.AGENT and asked and not api.has("Pod", "callee-1-b"):
            api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee")

    api.listeners.append(on_change)
    async with within("the message is answered"):
        assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == status
    assert [write for write in api.writes if write.startswith("merge")] == ["merge Agent callee"] * (status == 200)
    assert [each.path for each in upstream.received if each.path != "/readyz"] == ["/a2a"] * (status == 200)


async def test_proxy_names_the_shared_account_and_wakes_no_agent(api, client, upstream):
    api.add_agent("other", spec={"serviceAccountName": "callee"})
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "60")
        assert "the same ServiceAccount" in await answer.text()
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 503
    assert not [write for write in api.writes if write.startswith("merge")]
    api.remove(names.AGENT, "other")
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 200


@pytest.mark.parametrize("sleeps", [True, False], ids=["sleeps", "never sleeps"])
async def test_message_on_the_way_to_sleep_waits_for_the_next_pod(api, client, upstream, sleeps):
    """The pod ends although the cache still shows it as ready. It refuses the message, which reaches the next pod."""
    more = {"sleep": {"afterIdle": "15m"}} if sleeps else {}
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, **more})
    is_leaving = True

    async def answer(request: web.Request) -> web.Response:
        if is_leaving:
            return web.json_response({"error": {}}, status=503, headers={"Fleetwright-Not-Accepted": "true"})
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {}})

    upstream.answer = answer
    sending = asyncio.create_task(client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE))
    if not sleeps:
        assert await sending == 503
        assert not [write for write in api.writes if write.startswith("merge")]
        return
    await await_until(
        lambda: any(each.path == "/readyz" for each in upstream.received),
        "the gateway looks at the pod",
        shown=lambda: upstream.received,
    )
    assert api.writes.count("merge Agent callee") == 1
    api.remove("Pod", "callee-1-a")
    is_leaving = False
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    async with within("the next pod answers"):
        assert await sending == 200
    assert [each.path for each in upstream.received if each.path != "/readyz"] == ["/a2a", "/a2a"]


async def test_message_that_is_refused_twice_gets_the_answer_of_the_pod(api, client, upstream):
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}})

    async def answer(request: web.Request) -> web.Response:
        ready = request.path == "/readyz"
        return web.json_response({}, status=200 if ready else 503, headers={"Fleetwright-Not-Accepted": "true"})

    upstream.answer = answer
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 503
    assert [each.path for each in upstream.received] == ["/a2a", "/readyz", "/a2a"]


@pytest.mark.parametrize("wakes", [True, False], ids=["message", "unknown path"])
async def test_request_waits_until_a_restarted_container_is_reachable(api, client, upstream, wakes):
    """The container of a woken agent ends before the kubelet has reported it as ready. The agent received nothing."""
    api.remove("Pod", "callee-1-a")
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    async with within("each message is answered"):
        assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 200
        api.set_status("Pod", "callee-1-b", {**status, "podIP": "127.0.0.9"})
        if not wakes:
            assert await client.status("GET", f"{CALLEE}/x", token=caller_token(api)) == 502
            return
        several = [client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) for _ in range(4)]
        sending = asyncio.gather(*several)
        await await_until(
            lambda: api.writes.count("merge Agent callee") >= 2, "the agent is woken again", shown=lambda: api.writes
        )
        api.set_status("Pod", "callee-1-b", {**status, "podIP": "127.0.0.1"})
        assert await sending == [200] * 4
    assert [each.path for each in upstream.received if each.path != "/readyz"] == ["/a2a"] * 5


async def test_unreachable_pod_that_is_reported_as_ready_is_a_failure(api, client, upstream):
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.set_status("Pod", "callee-1-a", {**status, "podIP": "127.0.0.9"})
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) as answer:
        assert (answer.status, answer.headers["Fleetwright-Failure"]) == (502, "unreachable")
    assert not [write for write in api.writes if write.startswith("merge")]
