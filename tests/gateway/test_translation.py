"""Which requests the gateway translates, and how it answers if an agent of A2A 1.0 misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yarl
from aiohttp import web
from tests.support.gateway.calls import ASLEEP, CALLEE, build_interface, caller_token
from tests.support.gateway.served_gateway import CARD
from tests.support.waiting import await_until, within

from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_gateway.proxy.translation.selection import METHODS, is_translated, is_unknown_version, missing_versions

BOTH = frozenset({"0.3", "0.1"})
V03_ONLY, V01_ONLY = frozenset({"0.3"}), frozenset({"0.1"})


def call(method: str, params: Any = None, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}, **more}).encode()


def test_methods_are_those_of_the_older_dialects():
    spoken = {name: {d.version for d in (V03, V01) if name in d.methods} for d in (V03, V01) for name in d.methods}
    assert spoken == METHODS
    assert METHODS.keys().isdisjoint(V10.methods)


@pytest.mark.parametrize(
    ("interfaces", "missing"),
    [
        pytest.param([build_interface("1.0")], BOTH, id="1.0"),
        pytest.param([build_interface("1.0.1"), build_interface("0.2")], V01_ONLY, id="1.0 and 0.2"),
        pytest.param([build_interface("1.0"), build_interface("0.3")], V01_ONLY, id="1.0 and 0.3"),
        pytest.param([build_interface("1.0"), build_interface("0.1")], V03_ONLY, id="1.0 and 0.1"),
        pytest.param([build_interface("1.0"), build_interface("0.3"), build_interface("0.1")], frozenset(), id="all"),
        pytest.param([build_interface("1.0"), build_interface("0.3", "HTTP+JSON")], BOTH, id="0.3 over HTTP only"),
        pytest.param([build_interface("1.0", "HTTP+JSON")], frozenset(), id="1.0 over HTTP only"),
        pytest.param([build_interface("0.3")], frozenset(), id="0.3"),
        pytest.param([], frozenset(), id="nothing"),
        pytest.param(None, frozenset(), id="null"),
        pytest.param({"a": 1}, frozenset(), id="an object"),
        pytest.param(
            [
                3,
                None,
                build_interface(None),
                build_interface(""),
                build_interface(0.3),
                build_interface("1.0"),
                build_interface("1.0", []),
            ],
            BOTH,
            id="other types",
        ),
    ],
)
def test_missing_versions_are_those_of_the_card(interfaces, missing):
    assert missing_versions({"supportedInterfaces": interfaces}) == missing


def test_nothing_is_missing_without_a_card():
    assert missing_versions(None) == missing_versions({}) == frozenset()


@pytest.mark.parametrize(
    ("listed", "version", "unknown"),
    [
        (("1.0",), "", False),
        (("1.0",), "1.0", False),
        (("1.0",), "1.0.9", False),
        (("1.0",), "0.2", False),
        (("1.0",), "1.1", True),
        (("1.0",), "0.4", True),
        (("1.0",), "one", True),
        (("1.0", "1.1.2"), "1.1", False),
        (("1.0", "1.1"), "1.1.3", False),
        (("1.0", None), "2.0", True),
        ((), "2.0", True),
    ],
)
def test_version_is_unknown_to_gateway_and_card(listed, version, unknown):
    assert is_unknown_version({"supportedInterfaces": [*map(build_interface, listed)]}, version) is unknown


def test_version_is_unknown_without_a_card():
    assert is_unknown_version(None, "1.1")
    assert not is_unknown_version(None, "1.0.1")


@pytest.mark.parametrize(
    ("missing", "version", "method", "translated"),
    [
        (BOTH, "", "message/send", True),
        (BOTH, "", "tasks/send", True),
        (BOTH, "", "tasks/get", True),
        (BOTH, "0.3", "tasks/get", True),
        (BOTH, "0.2.5", "tasks/get", True),
        (BOTH, "0.1", "tasks/get", True),
        (BOTH, "1.0", "message/send", False),
        (BOTH, "1.0.1", "message/send", False),
        (BOTH, "2.0", "message/send", False),
        (BOTH, "", "SendMessage", False),
        (BOTH, "0.3", "SendMessage", False),
        (BOTH, "", "tasks/unknown", False),
        (V01_ONLY, "", "message/send", False),
        (V01_ONLY, "", "tasks/send", True),
        (V01_ONLY, "", "tasks/get", True),
        (V01_ONLY, "0.3", "tasks/get", False),
        (V01_ONLY, "0.1", "tasks/get", True),
        (V03_ONLY, "", "message/send", True),
        (V03_ONLY, "", "tasks/send", False),
        (V03_ONLY, "", "tasks/get", False),
        (V03_ONLY, "0.3", "tasks/get", True),
        (frozenset(), "", "message/send", False),
    ],
)
def test_is_translated_for_methods_of_missing_versions(missing, version, method, translated):
    body = call(method)
    assert is_translated(missing, verb="POST", path="/a2a", version=version, body=body) is translated


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        pytest.param("GET", "/a2a", call("message/send"), id="GET"),
        pytest.param("POST", "/v1/message:send", call("message/send"), id="HTTP+JSON"),
        pytest.param("POST", "/a2a", b"{", id="no JSON"),
        pytest.param("POST", "/a2a", b"[" + call("message/send") + b"]", id="batch"),
        pytest.param("POST", "/a2a", call("message/send", jsonrpc="1.0"), id="another JSON-RPC"),
    ],
)
def test_is_translated_for_no_other_requests(verb, path, body):
    assert not is_translated(BOTH, verb=verb, path=path, version="", body=body)


@pytest.mark.parametrize("path", ["/a2a", "/a2a/", "/%612a"])
def test_is_translated_whatever_the_encoding_of_the_path(path):
    assert is_translated(BOTH, verb="POST", path=path, version="", body=call("message/send"))


SEND = call("message/send", {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}})
STREAM = SEND.replace(b"message/send", b"message/stream")
MESSAGE = {"role": "user", "parts": [{"type": "text", "text": "x"}]}
"""A message of A2A 0.1."""
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
JSON = {"Content-Type": "application/json"}
EVENT = b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}}).encode() + b"\n\n"


@asynccontextmanager
async def posted(api, client, body, **headers: str) -> AsyncIterator[Any]:
    sent = {**JSON, **headers}
    async with client.request("POST", f"{CALLEE}/a2a", token=caller_token(api), data=body, headers=sent) as answer:
        yield answer


@pytest.mark.process
@pytest.mark.parametrize(
    "versions", [("1.0", "0.3", "0.1"), ("0.3",)], ids=["an agent with every version", "an agent without 1.0"]
)
async def test_supported_version_passes_byte_for_byte(api, client, upstream, versions):
    api.add_card("callee", {**CARD, "supportedInterfaces": [build_interface(each) for each in versions]})
    body = b' {"method" : "message/send", "params":{}, "jsonrpc":"2.0","id": 1.0e0}'
    async with posted(api, client, body) as answer:
        assert answer.status == 200
    assert upstream.received[0].body == body


@pytest.mark.process
async def test_translated_request_has_the_headers_of_1_0(api, client, upstream):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})

    upstream.answer = answer
    extension = {"X-A2A-Extensions": "https://example.com/e", "A2A-Version": "0.3", "Accept": "text/html"}
    async with posted(api, client, SEND, **extension, traceparent="00-1-2-01") as found:
        assert (found.status, (await found.json())["id"]) == (200, 7)
        assert found.headers["X-RateLimit-Limit"] == "600"
    (received,) = upstream.received
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert (headers["a2a-version"], headers["accept"], headers["a2a-extensions"], headers["traceparent"]) == (
        "1.0",
        "application/json",
        "https://example.com/e",
        "00-1-2-01",
    )
    assert "x-a2a-extensions" not in headers
    assert "fleetwright-delegation" in headers
    assert json.loads(received.body)["method"] == "SendMessage"


@pytest.mark.process
@pytest.mark.parametrize("body", [SEND, STREAM], ids=["message", "stream"])
@pytest.mark.parametrize(
    ("name", "activated"),
    [
        pytest.param("A2A-Extensions", None, id="none"),
        pytest.param("A2A-Extensions", "https://example.com/b", id="one"),
        pytest.param("A2A-Extensions", "https://example.com/c", id="one that the card does not declare"),
        pytest.param("X-A2A-Extensions", "https://example.com/b", id="the older name"),
        pytest.param(None, "https://example.com/b", id="none requested"),
    ],
)
async def test_extensions_are_those_that_the_agent_activates(api, client, upstream, body, name, activated):
    declared = [{"uri": f"https://example.com/{each}"} for each in "ab"]
    api.add_card("callee", {**CARD, "capabilities": {"streaming": True, "extensions": declared}})

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = {"A2A-Extensions": activated} if activated else {}
        if body is SEND:
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}}, headers=headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        await response.write(EVENT)
        return response

    upstream.answer = answer
    requested = {name: "https://example.com/a, https://example.com/b, https://example.com/c"} if name else {}
    async with posted(api, client, body, **requested) as found:
        assert found.status == 200
        told = {name: value for name, value in found.headers.items() if name.lower().endswith("a2a-extensions")}
    assert {key.lower(): value for key, value in told.items()} == (
        {name.lower(): activated} if name and activated else {}
    )


ANSWERS: list[Any] = [
    pytest.param(200, {"result": {"task": TASK}}, {}, 200, None, id="a task"),
    pytest.param(200, {"error": {"code": -32004, "message": "no"}}, {}, 200, -32004, id="an error"),
    pytest.param(400, {"error": {"code": -32602, "message": "no"}}, {}, 200, -32602, id="an error with a status"),
    pytest.param(503, {"error": {"code": -32603}}, {"Retry-After": "9"}, 503, -32603, id="not right now"),
    pytest.param(429, {"error": {"code": -32603}}, {}, 429, -32603, id="too much at once"),
    pytest.param(404, None, {}, 200, -32006, id="no JSON"),
    pytest.param(200, {"result": {"kind": "task"}}, {}, 200, -32006, id="an answer of another version"),
    pytest.param(401, None, {}, 502, -32600, id="a token that the agent refuses"),
]


@pytest.mark.process
@pytest.mark.parametrize(("status", "content", "headers", "wanted", "code"), ANSWERS)
async def test_answer_of_the_agent_is_translated(api, client, upstream, status, content, headers, wanted, code):
    async def answer(request: web.Request) -> web.Response:
        text = "<html>" if content is None else json.dumps({"jsonrpc": "2.0", "id": 1, **content})
        return web.Response(status=status, text=text, headers=headers)

    upstream.answer = answer
    for body in (SEND, STREAM):
        if body is STREAM and code is None:
            continue
        async with posted(api, client, body) as found:
            assert found.status == wanted
            text = await found.text()
            if "Retry-After" in headers:
                assert found.headers["Retry-After"] == headers["Retry-After"]
        document = json.loads(text.removeprefix("data: "))
        assert document.get("error", {}).get("code") == code


async def streamed(request: web.Request, *pieces: bytes, cut: bool) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    if cut:
        request.transport.close()
    return response


@pytest.mark.process
@pytest.mark.parametrize(
    ("pieces", "cut", "code", "aborted"),
    [
        pytest.param([EVENT], True, -32603, 1, id="cut after an event"),
        pytest.param([EVENT, EVENT[:20]], True, -32603, 1, id="cut in an event"),
        pytest.param([EVENT, b"data: <html>\n\n"], False, -32006, 0, id="no JSON"),
        pytest.param([EVENT, b'data: {"error": {"code": -32001}}\n\n'], False, -32001, 0, id="an error event"),
        pytest.param([EVENT, b"data: " + b"x" * (4 * 1024 * 1024)], False, -32006, 1, id="a huge event"),
    ],
)
async def test_broken_stream_ends_with_an_error_event(api, client, upstream, pieces, cut, code, aborted):
    async def answer(request: web.Request) -> web.StreamResponse:
        return await streamed(request, *pieces, cut=cut)

    upstream.answer = answer
    async with posted(api, client, STREAM) as found:
        lines = [json.loads(line[6:]) for line in (await found.text()).splitlines() if line.startswith("data: ")]
    assert [each["id"] for each in lines] == [7, 7]
    assert lines[0]["result"]["status"]["state"] == "completed"
    assert lines[1]["error"]["code"] == code
    failures = client.gateway.metrics.registry.get_sample_value(
        "fleetwright_gateway_proxy_failures_total", {"reason": "aborted"}
    )
    assert failures == aborted


@pytest.mark.process
@pytest.mark.parametrize(
    ("pieces", "cut", "code"),
    [
        pytest.param([], True, -32603, id="cut before an event"),
        pytest.param([], False, -32006, id="no event"),
        pytest.param([b": ping\n\n"], False, -32006, id="comments only"),
    ],
)
async def test_stream_without_an_event_is_one_error(api, client, upstream, pieces, cut, code):
    async def answer(request: web.Request) -> web.StreamResponse:
        return await streamed(request, *pieces, cut=cut)

    upstream.answer = answer
    async with posted(api, client, STREAM) as found:
        assert found.status == 200
        assert json.loads((await found.text()).strip().removeprefix("data: "))["error"]["code"] == code


@pytest.mark.process
async def test_events_are_translated_as_they_arrive(api, client, upstream):
    released = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await streamed(request, EVENT[:30], EVENT[30:], cut=False)
        await released.wait()
        await response.write(EVENT)
        return response

    upstream.answer = answer
    async with (
        within("the first event arrives, and the stream ends after the second"),
        posted(api, client, STREAM) as found,
    ):
        line = b""
        while not line.startswith(b"data: "):
            line = await found.content.readline()
        assert json.loads(line[6:])["result"]["id"] == "t"
        released.set()
        assert b'"completed"' in await found.content.read()


@pytest.mark.process
async def test_caller_who_left_ends_the_stream_of_the_agent(api, client, upstream):
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await streamed(request, EVENT, cut=False)
        try:
            while True:
                await response.write(b": keep-alive\n\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    upstream.answer = answer
    async with posted(api, client, STREAM) as found:
        await found.content.readany()
    async with within("the stream of the agent ends"):
        await ended.wait()


@pytest.mark.process
async def test_caller_who_left_does_not_end_the_call(api, client, upstream):
    begun, released = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        begun.set()
        await released.wait()
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})

    async def send() -> None:
        async with posted(api, client, SEND) as found:
            await found.read()

    upstream.answer = answer
    calling = asyncio.create_task(send())
    await begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    released.set()
    async with within("the agent's call ends"):
        await upstream.ended.wait()


@pytest.mark.process
@pytest.mark.parametrize("body", [SEND, STREAM], ids=["message", "stream"])
async def test_huge_answer_is_refused(api, client, upstream, body):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(11):
            await response.write(b" " * 1024 * 1024)
        return response

    upstream.answer = answer
    async with posted(api, client, body) as found:
        assert found.status == 502
        assert "larger than" in (await found.json())["error"]["message"]


@pytest.mark.process
@pytest.mark.parametrize("body", [SEND, STREAM], ids=["message", "stream"])
async def test_unreachable_agent_is_reported_as_without_translation(api, client, upstream, body):
    ready = [{"type": "Ready", "status": "True"}]
    api.set_status("Pod", "callee-1-a", {"phase": "Running", "podIP": "127.0.0.9", "conditions": ready})
    async with posted(api, client, body) as found:
        assert (found.status, found.headers["Retry-After"]) == (502, "2")
        assert "cannot be reached" in (await found.json())["error"]["message"]


@pytest.mark.process
async def test_silent_agent_is_reported_after_the_idle_timeout(api, client, upstream):
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    upstream.answer = answer
    async with posted(api, client, SEND, **{"X-Timeout": "1"}) as found:
        assert found.status == 504


@pytest.mark.process
@pytest.mark.parametrize("body", [SEND, STREAM], ids=["message", "stream"])
async def test_translated_message_waits_for_the_next_pod(api, client, upstream, body):
    """The pod goes to sleep and refuses the message, which then reaches the next pod."""
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}})
    refusals = 1

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal refusals
        if request.path == "/readyz":
            return web.Response()
        if refusals:
            refusals -= 1
            return web.json_response({"error": {}}, status=503, headers={"Fleetwright-Not-Accepted": "true"})
        if body is STREAM:
            return await streamed(request, EVENT, cut=False)
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})

    upstream.answer = answer
    async with posted(api, client, body) as found:
        assert found.status == 200
        assert '"completed"' in await found.text()
    assert [each.path for each in upstream.received] == ["/a2a", "/readyz", "/a2a"]


@pytest.mark.process
async def test_translated_message_wakes_a_sleeping_agent(api, client, upstream):
    api.remove("Pod", "callee-1-a")
    api.add_agent("callee", spec={"fleet": {"reach": "Direct"}, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})

    async def send() -> tuple[int, str]:
        async with posted(api, client, SEND) as found:
            return found.status, found.headers.get("Fleetwright-Cold-Start", "")

    upstream.answer = answer
    sending = asyncio.create_task(send())
    await await_until(
        lambda: "merge Agent callee" in api.writes, "the gateway asks for a wake", shown=lambda: api.writes
    )
    api.add_pod("callee-1-b", owner=api.find("ReplicaSet", "callee-1"), account="callee", ready=False)
    async with within("the woken agent answers"):
        status, cold = await sending
    assert status == 200
    assert int(cold) >= 0


@pytest.mark.process
@pytest.mark.parametrize("code", [-32601, -32004], ids=["no such method", "not supported"])
async def test_v01_needs_an_agent_that_lists_its_tasks(api, client, upstream, code):
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}})

    upstream.answer = answer
    async with posted(api, client, call("tasks/send", {"id": "t", "message": MESSAGE})) as found:
        error = (await found.json())["error"]
    assert error["code"] == -32004
    assert "use A2A 0.3 or 1.0" in error["message"]
    assert [json.loads(each.body)["method"] for each in upstream.received] == ["ListTasks"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(call("tasks/get", {"id": "t"}), None, id="0.3, or 0.1 for a chosen id"),
        pytest.param(call("tasks/cancel", {"id": "t"}), None, id="cancel"),
        pytest.param(call("tasks/send", {"id": "t", "message": MESSAGE}), -32603, id="0.1"),
    ],
)
async def test_list_of_tasks_that_is_too_large_finds_no_chosen_id(api, client, upstream, body, code):
    async def answer(request: web.Request) -> web.StreamResponse:
        if (await request.json())["method"] == "ListTasks":
            return web.Response(body=b" " * (10 * 1024 * 1024 + 1))
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": TASK})

    upstream.answer = answer
    async with posted(api, client, body) as found:
        assert found.status == 200
        document = await found.json()
    assert document.get("error", {}).get("code") == code


@pytest.mark.process
@pytest.mark.parametrize("status", [429, 503])
async def test_list_that_fails_for_a_moment_is_no_unknown_task(api, client, upstream, status):
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}, status=status)

    upstream.answer = answer
    async with posted(api, client, call("tasks/cancel", {"id": "t"})) as found:
        assert found.status == status
    assert [json.loads(each.body)["method"] for each in upstream.received] == ["ListTasks"]


@pytest.mark.process
async def test_task_with_a_chosen_id_is_searched_once(api, client, upstream):
    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["method"] == "ListTasks":
            is_newest = not asked["params"].get("contextId")
            sent = json.loads(json.dumps(TASK)) | {"history": [sent_message]}
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"tasks": [sent] if is_newest else []}})
        if asked["method"] == "SendMessage":
            sent_message.update(asked["params"]["message"])
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": TASK})

    sent_message: dict[str, Any] = {}
    upstream.answer = answer
    async with posted(api, client, call("tasks/send", {"id": "t", "message": MESSAGE})) as found:
        assert found.status == 200
    upstream.received.clear()
    async with posted(api, client, call("tasks/get", {"id": "t"})) as found:
        assert (await found.json())["result"]["id"] == "t"
    assert [json.loads(each.body)["method"] for each in upstream.received] == ["ListTasks", "ListTasks", "GetTask"]


@pytest.mark.process
@pytest.mark.parametrize("method", ["tasks/send", "tasks/sendSubscribe"])
@pytest.mark.parametrize(
    ("asked_at", "code"),
    [
        pytest.param("2026-03-01T11:59:30Z", None, id="half a minute after the question"),
        pytest.param("2026-03-01T11:58:30Z", -32600, id="later"),
        pytest.param(None, None, id="a status without a time"),
    ],
)
async def test_late_repetition_does_not_answer_a_question(api, client, upstream, method, asked_at, code):
    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["method"] == "ListTasks":
            result: Any = {"tasks": [task | {"history": [sent_message]}] if sent_message else []}
        else:
            sent_message.update(asked["params"].get("message", {}))
            result = {"task": task} if asked["method"] == "SendMessage" else task
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": result})

    sent_message: dict[str, Any] = {}
    times = {"timestamp": asked_at} if asked_at else {}
    task = TASK | {"status": {"state": "TASK_STATE_INPUT_REQUIRED", **times}}
    upstream.answer = answer
    async with posted(api, client, call("tasks/send", {"id": "t", "message": MESSAGE})) as found:
        assert (await found.json())["result"]["status"]["state"] == "input-required"
    async with posted(api, client, call(method, {"id": "t", "message": MESSAGE})) as found:
        text = await found.text()
    told = json.loads(text.removeprefix("data: "))
    assert told.get("error", {}).get("code") == code
    assert ("a request with a new id" in text) is (code is not None)
    sent = [json.loads(each.body)["method"] for each in upstream.received]
    assert sent.count("SendMessage") == 1


@pytest.mark.process
async def test_list_that_is_too_large_is_read_in_small_pages(api, client, upstream):
    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["method"] != "ListTasks":
            sent_message.update(asked["params"].get("message", {}))
            result: Any = {"task": TASK} if asked["method"] == "SendMessage" else TASK
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": result})
        if asked["params"]["pageSize"] > 10 and sent_message:
            return web.Response(body=b" " * (10 * 1024 * 1024 + 1))
        is_second = asked["params"].get("pageToken") == "second"
        page = {"tasks": [TASK | {"history": [sent_message]}]} if is_second else {"nextPageToken": "second"}
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": page if sent_message else {}})

    sent_message: dict[str, Any] = {}
    upstream.answer = answer
    async with posted(api, client, call("tasks/send", {"id": "t", "message": MESSAGE})) as found:
        assert found.status == 200
    async with posted(api, client, call("tasks/get", {"id": "t"})) as found:
        assert (await found.json())["result"]["id"] == "t"


@pytest.mark.process
async def test_unreachable_agent_is_called_once_for_a_chosen_id(api, client, upstream):
    """The call is not sent after the search for the id has failed."""

    async def answer(request: web.Request) -> web.StreamResponse:
        request.transport.close()
        return web.Response()

    upstream.answer = answer
    async with posted(api, client, call("tasks/cancel", {"id": "t"})) as found:
        assert found.status == 502
    assert [json.loads(each.body)["method"] for each in upstream.received] == ["ListTasks"]


@pytest.mark.process
@pytest.mark.parametrize("body", [SEND, STREAM], ids=["message", "stream"])
async def test_half_closed_caller_has_left(api, client, upstream, body):
    """A caller that closes its sending side gets no answer. Its message runs to its end, and its stream ends."""
    begun, released, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        begun.set()
        if body is STREAM:
            response = await streamed(request, EVENT, cut=False)
            try:
                while True:
                    await response.write(b": keep-alive\n\n")
                    await asyncio.sleep(0.01)
            finally:
                ended.set()
        await released.wait()
        ended.set()
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}})

    upstream.answer = answer
    url = yarl.URL(client.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {CALLEE}/a2a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {caller_token(api)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    async with within("the connection and the agent's call end"):
        await begun.wait()
        writer.write_eof()
        found = await reader.read()
        released.set()
        await ended.wait()
    assert b'"error"' not in found
    writer.close()


@pytest.mark.process
async def test_v01_stream_of_an_agent_without_streams_is_refused(api, client, upstream):
    api.add_card("callee", {**CARD, "capabilities": {"streaming": False}})
    async with posted(api, client, call("tasks/sendSubscribe", {"id": "t", "message": MESSAGE})) as found:
        error = json.loads((await found.text()).strip().removeprefix("data: "))["error"]
    assert error["code"] == -32004
    assert upstream.received == []
