"""Hostile and malformed requests: the server rejects each with the correct code and without internal details."""

import asyncio
import base64
import contextlib
import gzip
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.timeouts import TimeoutProtocol
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest

Open = Callable[..., Any]
SEND = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}


def call(method: object = "SendMessage", params: object = None, **changes: object) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params if params is not None else {"message": SEND}}
    return json.dumps(body | changes).encode()


def nested(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"


def objects(depth: int) -> object:
    return {"a": objects(depth - 1)} if depth else "x"


REFUSED = [
    pytest.param(b"not json", 200, -32700, id="text that is not JSON"),
    pytest.param(b"", 200, -32700, id="an empty body"),
    pytest.param(b"\xff\xfe{}", 200, -32700, id="bytes that are not UTF-8"),
    pytest.param(b'{"a": NaN}', 200, -32700, id="a number that JSON does not have"),
    pytest.param(b'{"id": 1e999}', 200, -32700, id="a number that is infinity when it is read"),
    pytest.param(b'{"id": ' + b"9" * 5000 + b"}", 200, -32700, id="a number of five thousand digits"),
    pytest.param(b'{"id": 1, ' + call()[1:], 200, -32700, id="two ids"),
    pytest.param(
        b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","id":"a"}}', 200, -32700, id="a name twice"
    ),
    pytest.param(nested(100_000), 200, -32700, id="a hundred thousand levels"),
    pytest.param(nested(80), 200, -32700, id="eighty levels"),
    pytest.param(
        call(params={"message": SEND | {"metadata": objects(30)}}), 200, -32700, id="deeper than what can be kept"
    ),
    pytest.param(call(params={"message": SEND | {"metadata": {"m": [1] * 20_000}}}), 200, -32700, id="too many values"),
    pytest.param(call(params={"message": SEND | {"parts": [{"text": "a, b: " * 9000}]}}), 200, None, id="a long text"),
    pytest.param(
        call("ListTasks", {"pageToken": base64.b64encode(b'{"timestamp_ns":1,"task_id":"\\ud800"}').decode()}),
        200,
        -32602,
        id="a page token with half a character",
    ),
    pytest.param(
        call("ListTasks", {"pageToken": base64.b64encode(b"[" * 90_000).decode()}), 200, -32602, id="a deep page token"
    ),
    pytest.param(b'{"jsonrpc":"2.0","id":"\\ud800","method":"GetTask"}', 200, -32700, id="half a character"),
    pytest.param(b"[" + call() + b"]", 200, -32600, id="a batch"),
    pytest.param(b'"text"', 200, -32600, id="JSON that is no object"),
    pytest.param(call(jsonrpc="1.0"), 200, -32600, id="another version of JSON-RPC"),
    pytest.param(call(id=True), 200, -32600, id="an id that is a truth value"),
    pytest.param(call(method=7), 200, -32600, id="a method that is a number"),
    pytest.param(call(params=[1]), 200, -32602, id="params that are a list"),
    pytest.param(
        call(params={"message": SEND, "metadata": {"n": 10**400}}), 200, -32602, id="a number that no double can hold"
    ),
    pytest.param(call("message/answer"), 200, -32601, id="a method of no dialect"),
    pytest.param(call(params={"message": SEND | {"messageId": 7}}), 200, -32602, id="a field of the wrong type"),
    pytest.param(call(params={"message": SEND | {"parts": []}}), 200, -32602, id="a message without parts"),
    pytest.param(call(params={"message": SEND | {"parts": [{"text": " "}]}}), 200, -32602, id="a message without text"),
    pytest.param(call(params={"message": SEND, "new": "c"}), 200, None, id="an unknown field is ignored"),
    pytest.param(call(params={"message": SEND, "contextId": "c"}), 200, -32602, id="a context id beside the message"),
    pytest.param(
        call("SendStreamingMessage", {"message": SEND | {"parts": []}}), 200, -32602, id="a stream without a message"
    ),
    pytest.param(call("SubscribeToTask", {"id": "x"}), 200, -32001, id="a stream of a task nobody knows"),
    pytest.param(call(params={"message": SEND | {"contextId": "c" * 129}}), 200, -32602, id="a context id too long"),
    pytest.param(call(params={"message": SEND | {"messageId": "a\nb"}}), 200, -32602, id="an id with a line break"),
    pytest.param(call(params={"message": SEND | {"role": "ROLE_AGENT"}}), 200, -32602, id="a message as the agent"),
    pytest.param(call(params={"message": SEND | {"taskId": "unknown"}}), 200, -32001, id="a task nobody knows"),
    pytest.param(
        call(params={"message": SEND | {"metadata": {"https://fleetwright.dev/a2a/call-path/v1": "x"}}}),
        200,
        -32602,
        id="a call path that is no list",
    ),
    pytest.param(
        call(params={"message": SEND | {"parts": [{"url": "http://x", "mediaType": "image/png"}]}}),
        200,
        -32005,
        id="a picture for an agent that reads text",
    ),
    pytest.param(
        call(params={"message": SEND | {"parts": [{"text": "x", "mediaType": "text/html"}]}}),
        200,
        -32005,
        id="text of a kind the card does not list",
    ),
    pytest.param(
        call(params={"message": SEND, "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}}),
        200,
        -32003,
        id="a message that wants to be pushed",
    ),
    pytest.param(
        call("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "http://x"}), 200, -32003, id="a push config"
    ),
    pytest.param(call("GetExtendedAgentCard", {}), 200, -32007, id="the extended card"),
    pytest.param(call("ListTasks", {"pageSize": 101}), 200, -32602, id="a page too large"),
    pytest.param(call("ListTasks", {"pageToken": "AAAA"}), 200, -32602, id="a page token of somebody else"),
    pytest.param(call("GetTask", {"id": "x", "historyLength": -1}), 200, -32602, id="a negative history"),
    pytest.param(
        call(params={"message": {"parts": [{"text": "a" * 1024 * 1024}]}}), 413, -32600, id="a body too large"
    ),
]


@pytest.mark.parametrize(("body", "status", "code"), REFUSED)
async def test_r7_invalid_bodies_are_refused(open_door: Open, body: bytes, status: int, code: int | None) -> None:
    door = await open_door()
    async with door.http() as http:
        response = await http.post("/a2a", content=body)
    assert response.status_code == status
    answer = response.json()
    assert answer.get("error", {}).get("code") == code
    for word in ("Traceback", "object has no", "expected", "Python", "NoneType", "recursion", "sqlite", "parseError"):
        assert word not in response.text


async def test_invalid_params_error_names_the_field(open_door: Open) -> None:
    door = await open_door()
    answer = await door.call("SendMessage", {"message": SEND | {"messageId": 7}})
    assert answer["error"]["message"] == "Invalid params: check message.messageId"


async def test_rpc_version_is_checked_after_method_and_params(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        del http.headers["A2A-Version"]
        assert (await http.post("/a2a", content=call())).json()["error"]["code"] == -32009
        assert (await http.post("/a2a", content=call("Nonsense"))).json()["error"]["code"] == -32601
        http.headers["A2A-Version"] = "1.0.7"
        assert "result" in (await http.post("/a2a", content=call())).json()
        http.headers["A2A-Version"] = "0.3"
        assert (await http.post("/a2a", content=call())).json()["error"]["code"] == -32009


async def test_rpc_path_works_with_and_without_trailing_slash(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        for path in ("/a2a", "/a2a/"):
            assert "result" in (await http.post(path, content=call())).json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Content-Encoding": "gzip"}, 415, id="a compressed body"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="a body that does not say it is JSON"),
        pytest.param({"Content-Type": "application/json; charset=utf-8"}, 200, id="JSON with a charset passes"),
    ],
)
async def test_r7_content_headers_are_checked(open_door: Open, headers: dict[str, str], status: int) -> None:
    door = await open_door()
    body = gzip.compress(call()) if "Content-Encoding" in headers else call()
    async with door.http() as http:
        response = await http.post("/a2a", content=body, headers=headers)
    assert response.status_code == status


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "message/stream", "tasks/sendSubscribe"])
@pytest.mark.parametrize("content_type", ["text/plain", "text/event-stream", ""])
async def test_other_media_types_are_refused_with_the_code_of_a2a(
    open_door: Open, method: str, content_type: str
) -> None:
    door = await open_door()
    async with door.http() as http:
        headers = {"Content-Type": content_type, "Accept": "text/event-stream"}
        response = await http.post("/a2a", content=call(method), headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (415, -32005)


EVIL, NOBODY, GOOD = "https://evil.example", "null", "https://good.example"


@pytest.mark.parametrize(
    ("allowed", "origin", "status", "readable", "warned"),
    [
        pytest.param(["https://good.example"], EVIL, 403, False, False, id="a page of a foreign origin is refused"),
        pytest.param(["https://good.example"], NOBODY, 403, False, False, id="a page of no origin is refused"),
        pytest.param(["https://good.example"], GOOD, 200, True, False, id="a listed origin passes"),
        pytest.param(["https://good.example"], GOOD.upper(), 200, False, False, id="in any case"),
        pytest.param(["https://good.example"], None, 200, False, False, id="a program states none and passes"),
        pytest.param([], GOOD, 403, False, False, id="an empty list lets no page pass"),
        pytest.param(["*"], EVIL, 200, True, False, id="where every origin is listed it passes in silence"),
        pytest.param(None, EVIL, 200, True, True, id="where nothing is said it passes, and the log says so"),
        pytest.param(None, None, 200, False, False, id="of a program the log says nothing"),
    ],
)
async def test_origin_header_is_checked_against_the_allowed_origins(
    open_door: Open,
    mounted: Any,
    documents: Any,
    caplog: pytest.LogCaptureFixture,
    allowed: list[str] | None,
    origin: str | None,
    status: int,
    *,
    readable: bool,
    warned: bool,
) -> None:
    mounted.write(mounted.layout.config_file, documents(**({} if allowed is None else {"allowedOrigins": allowed})))
    door = await open_door()
    async with door.http() as http:
        headers = {"Origin": origin} if origin else {}
        answers = [await http.post("/a2a", content=call("GetTask", {"id": "x"}), headers=headers) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {status}
    assert all(("access-control-allow-origin" in answer.headers) is readable for answer in answers)
    assert [record.levelname for record in caplog.records if "origin" in record.message] == ["WARNING"] * warned


async def test_cors_preflight_admits_a_listed_origin(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(allowedOrigins=["https://good.example"]))
    door = await open_door()
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,a2a-version"}
    async with door.http(None) as http:
        allowed = await http.options("/a2a", headers={"Origin": "https://good.example", **asks})
        foreign = await http.options("/a2a", headers={"Origin": "https://evil.example", **asks})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://good.example"
    assert foreign.status_code == 403
    assert "access-control-allow-origin" not in foreign.headers
    async with door.http() as http:
        called = await http.post("/a2a", content=call(), headers={"Origin": "https://good.example"})
        refused = await http.post("/a2a", headers={"Origin": "https://good.example", "Authorization": "Bearer x"})
    for answer in (called, refused):
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
    assert (called.status_code, refused.status_code) == (200, 401)


async def test_cors_preflight_admits_any_origin_by_default(open_door: Open) -> None:
    door = await open_door()
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    async with door.http(None) as http:
        asked = await http.options("/a2a", headers={"Origin": EVIL, **asks})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, "*")


async def test_request_size_limit_follows_the_configuration(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxRequestBytes": 2048}))
    door = await open_door()
    async with door.http() as http:
        fits = await http.post("/a2a", content=call().ljust(2048))
        larger = await http.post("/a2a", content=call().ljust(2049))
    assert (fits.status_code, larger.status_code) == (200, 413)
    assert "2048" in larger.json()["error"]["message"]


async def test_rate_limit_per_caller_sets_retry_after(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxRequestsPerMinute": 3}))
    seconds = 0.0
    door = await open_door(clock=Clock(monotonic=lambda: seconds))
    async with door.http() as http, door.http("client:other") as other, door.http(None) as stranger:
        many = [await http.post("/a2a", content=call("GetTask", {"id": "x"})) for _ in range(5)]
        assert [answer.status_code for answer in many] == [200, 200, 200, 429, 429]
        assert many[-1].headers["retry-after"] == "20"
        assert "3 requests a minute" in many[-1].json()["error"]["message"]
        assert (await other.post("/a2a", content=call("GetTask", {"id": "x"}))).status_code == 200
        assert (await stranger.get("/.well-known/agent-card.json")).status_code == 200
        seconds = 20.0
        later = [await http.post("/a2a", content=call("GetTask", {"id": "x"})) for _ in range(2)]
    assert [answer.status_code for answer in later] == [200, 429]


async def test_concurrency_limits_apply_per_caller(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxTasksPerCaller": 3, "maxStreamsPerCaller": 2}))
    ended = asyncio.Event()

    async def waits(_: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Waiting. ")
        await ended.wait()
        yield TurnDone("Waited.")

    door = await open_door(waits)
    tasks = [await door.say("go", now=True, contextId=f"c{n}") for n in range(3)]
    async with door.http() as http, door.http("client:other") as other:
        for method in ("SendMessage", "SendStreamingMessage", "message/send"):
            params = {"message": SEND | ({"kind": "message", "role": "user"} if "/" in method else {})}
            headers = {"A2A-Version": "0.3"} if "/" in method else {}
            refused = await http.post("/a2a", content=call(method, params), headers=headers)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5"), refused.text
            assert "3 tasks running" in refused.json()["error"]["message"]
        assert (await http.post("/a2a/message:send", json={"message": SEND})).status_code == 429
        one = call(params={"message": SEND, "configuration": {"returnImmediately": True}})
        assert "result" in (await other.post("/a2a", content=one)).json()
        follow = call("SubscribeToTask", {"id": tasks[0]["id"]})
        async with http.stream("POST", "/a2a", content=follow), http.stream("POST", "/a2a", content=follow):
            third = await http.post("/a2a", content=follow)
            assert third.status_code == 429
            assert "2 streams open" in third.json()["error"]["message"]
        async with within("a further stream opens"), http.stream("POST", "/a2a", content=follow) as again:
            assert again.status_code == 200
        ended.set()
        for task in tasks:
            await door.until(task["id"], "TASK_STATE_COMPLETED")
        assert "result" in (await http.post("/a2a", content=call())).json()


async def test_task_retention_follows_the_configuration(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(taskRetentionSeconds=7200))
    later = 0.0
    clock = Clock(now_ns=lambda: time.time_ns() + int(later * 1e9), monotonic=lambda: time.monotonic() + later)
    door = await open_door(clock=clock, retry_seconds=0.01)
    task = (await door.call("SendMessage", {"message": SEND}))["result"]["task"]["id"]
    later = 7000.0
    await asyncio.sleep(0.1)
    assert "result" in await door.call("GetTask", {"id": task})
    later = 11000.0
    async with within("the old task is deleted"):
        while "result" in (answer := await door.call("GetTask", {"id": task})):
            # A round of maintenance that has begun before the jump of the clock sets the time of the next one after it.
            later += 2000.0
    assert answer["error"]["code"] == -32001


async def test_r7_body_without_a_length_is_counted(open_door: Open) -> None:
    door = await open_door()

    async def endless() -> Any:
        for _ in range(64):
            yield b" " * 64 * 1024

    async with door.http() as http:
        response = await http.post("/a2a", content=endless())
    assert response.status_code == 413


async def test_activated_extensions_are_named_in_the_response(open_door: Open) -> None:
    door = await open_door()
    cost = "https://proto-labs.ai/a2a/ext/cost-v1"
    async with door.http() as http:
        asked = await http.post("/a2a", content=call(), headers={"A2A-Extensions": f"{cost}, urn:other"})
        unasked = await http.post("/a2a", content=call())
    assert asked.headers["a2a-extensions"] == cost
    assert "a2a-extensions" not in unasked.headers


class Hasty(TimeoutProtocol):
    header_seconds = 0.6


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="a connection that says nothing"),
        pytest.param(b"POST /a2a HTTP/1.1\r\nHost: x\r\nX-Slow: ", id="half a header"),
        pytest.param(
            b"GET /.well-known/agent.json HTTP/1.1\r\nHost: x\r\n\r\nGET /", id="half a second request on a connection"
        ),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X-Many: y\r\n" * 10_000, id="headers without end"),
    ],
)
async def test_r9_header_timeout_closes_the_connection(open_door: Open, sent: bytes) -> None:
    door = await open_door(protocol=Hasty)
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    async with within("the server closes the connection"):
        await reader.read()  # The read ends because the server closes. A server that waits would cause a timeout.
    writer.close()


async def test_r9_header_timeout_includes_empty_lines_after_a_response(open_door: Open) -> None:
    door = await open_door(protocol=Hasty)
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /.well-known/agent.json HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"}]}")
    writer.write(b"\r\n")
    async with within("the server closes the connection"):
        await reader.read()  # Ends because the server closes.
    writer.close()


@pytest.mark.parametrize("depth", [20, 24, 26, 28])
@pytest.mark.parametrize("where", ["metadata", "data"])
async def test_deeply_nested_answer_is_refused_or_stored_completely(open_door: Open, where: str, depth: int) -> None:
    """An answer within the depth limit is stored completely; a deeper one is refused before anything is stored."""

    async def asks(request: TurnRequest) -> AsyncIterator[Frame]:
        if request.reply is None:
            yield InterruptRequest(
                InterruptKind.QUESTION, "Which?", {"question": "Which?"}, identity="i", tool="ask_human"
            )
        else:
            yield TurnDone("Thanks.")

    door = await open_door(asks)
    task = await door.say("go")
    deep = {"metadata": objects(depth)} if where == "metadata" else {"parts": [{"data": objects(depth)}]}
    message = {**SEND, "messageId": "deep", "taskId": task["id"], "parts": [{"text": "yes"}], **deep}
    answer = await door.call("SendMessage", {"message": message})
    if "error" in answer:
        assert answer["error"]["code"] == -32700, "the server rejects it before it stores anything"
        assert depth > 25
        return
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    found = (await door.call("GetTask", {"id": task["id"]}))["result"]
    assert found["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_header_timeout_does_not_close_an_active_connection(open_door: Open) -> None:
    door = await open_door(protocol=Hasty)
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(2):
        writer.write(b"GET /.well-known/agent.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await reader.readline()
        await reader.readuntil(b"}]}")
        await asyncio.sleep(1)
    writer.close()


async def test_an_upgrade_request_is_answered_as_a_plain_one(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        for _ in range(2):
            assert (await http.get("/.well-known/agent-card.json", headers=headers)).status_code == 200


class Impatient(TimeoutProtocol):
    request_seconds = 1.5


@pytest.mark.parametrize(
    "first_line",
    [
        pytest.param("POST /a2a HTTP/1.1", id="a call without a token"),
        pytest.param("GET /.well-known/agent-card.json HTTP/1.1", id="a card with a body"),
    ],
)
async def test_r9_body_timeout_closes_unauthenticated_connections(open_door: Open, first_line: str) -> None:
    door = await open_door(protocol=Impatient)
    host, port = door.url.removeprefix("http://").split(":")
    loop, answer = asyncio.get_running_loop(), b""
    # A socket, not a stream: a stream drops what it has read when a later write meets the closed connection.
    with socket.create_connection((host, int(port))) as stranger:
        stranger.setblocking(False)
        await loop.sock_sendall(stranger, f"{first_line}\r\nHost: x\r\nContent-Length: 100000\r\n\r\n".encode())

        async def drips() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    await loop.sock_sendall(stranger, b" ")
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drips())
        async with within("the server closes the connection"):
            with contextlib.suppress(ConnectionResetError):
                while block := await loop.sock_recv(stranger, 65536):
                    answer += block
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
    assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 200"))


CHUNKED = b"%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CARD = CHUNKED % b"GET /.well-known/agent-card.json"


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(CARD + b"0\r\n", b"X-Many: " + b"y" * 1000 + b"\r\n", id="trailers of a card request"),
        pytest.param(CARD + b"0\r\nX-Giant: ", b"y" * 1000, id="one giant trailer value"),
        pytest.param(CARD + b"1;a=", b"y" * 1000, id="a chunk extension without an end"),
        pytest.param(CHUNKED % b"POST /a2a" + b"2\r\n{}\r\n0\r\n", b"X: " + b"y" * 1000 + b"\r\n", id="after a body"),
        pytest.param(CHUNKED % b"GET /nowhere" + b"0\r\n", b"X: y\r\n" * 200, id="of a path that does not exist"),
    ],
)
async def test_r7_endless_trailers_close_the_connection(open_door: Open, begin: bytes, piece: bytes) -> None:
    door = await open_door()
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(begin)
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 64 * 1024 * 1024 and not reader.at_eof():
            writer.write(piece * 100)
            await writer.drain()
            sent += 100 * len(piece)
    assert sent < 32 * 1024 * 1024  # The kernel buffers a few megabytes.
    writer.close()


async def test_trailers_within_the_limit_are_ignored(open_door: Open) -> None:
    door = await open_door()
    host, port = door.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = CHUNKED % b"POST /a2a"
    known = b"Authorization: Bearer token-of-default\r\nA2A-Version: 1.0\r\n\r\n"
    body = call("GetTask", {"id": "unknown", "filler": "y" * 400_000})
    chunks = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    for _ in range(2):
        writer.write(head.removesuffix(b"\r\n") + known + framed + b"0\r\nX-Checksum: " + b"y" * 1000 + b"\r\n\r\n")
        async with within("the response arrives"):
            answered = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            answer = await reader.readexactly(length)
        assert json.loads(answer)["error"]["code"] == -32001
    writer.close()


async def test_repeated_message_returns_its_task_at_the_limit(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxTasksPerCaller": 1}))

    async def waits(_: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Waiting. ")
        await asyncio.sleep(60)

    door = await open_door(waits)
    task = await door.say("go", now=True, messageId="again")
    assert (await door.say("go", now=True, messageId="again"))["id"] == task["id"]
    async with door.http() as http:
        assert (await http.post("/a2a", content=call())).status_code == 429


async def test_list_tasks_accepts_a_timestamp_beyond_the_log_range(open_door: Open) -> None:
    door = await open_door()
    await door.say("hello")
    answer = await door.call("ListTasks", {"statusTimestampAfter": "9999-01-01T00:00:00Z"})
    assert answer["result"].get("tasks", []) == []


async def test_stream_headers_disable_caching_and_buffering(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        answer = await http.post("/a2a", content=call("SendStreamingMessage"))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "no-store" in answer.headers["cache-control"]
    assert answer.headers["x-accel-buffering"] == "no"


async def test_r9_body_timeout_ends_the_request(open_door: Open) -> None:
    from fleetwright_a2a.http.edge import BodyLimit

    answers: list[dict[str, Any]] = []

    async def never(*_: object) -> None:
        raise AssertionError("the application must not be reached")

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": [(b"content-type", b"application/json")]}
    await BodyLimit(never, seconds=0.05)(scope, receive, send)
    assert answers[0]["status"] == 408


PIECE = {"type": "http.request", "body": b'{"a"', "more_body": True}
LAST = {"type": "http.request", "body": b": 1}", "more_body": False}
GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize(("verb", "path"), [("POST", "/message:send/"), ("GET", "/tasks/")])
async def test_path_with_a_trailing_slash_is_no_redirect(open_door: Open, verb: str, path: str) -> None:
    """A redirect would name the address of the pod, and a client might send its message there."""
    door = await open_door()
    async with door.http() as http:
        answer = await http.request(verb, path, json={} if verb == "POST" else None)
    assert (answer.status_code, answer.headers.get("location")) == (404, None)


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        pytest.param([PIECE, LAST], [b'{"a": 1}'], id="a complete body"),
        pytest.param([GONE], [], id="the caller leaves before its body"),
        pytest.param([PIECE, GONE], [], id="the caller leaves within its body"),
        pytest.param([{**PIECE, "body": b"x" * 20}, GONE], [], id="within a body that is too large"),
    ],
)
async def test_body_limit_ends_requests_with_incomplete_bodies(messages: list[Any], wanted: list[bytes]) -> None:
    from fleetwright_a2a.http.edge import BodyLimit

    bodies: list[bytes] = []
    answers: list[Any] = []
    arriving = iter(messages)

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        bodies.append((await receive())["body"])

    async def receive() -> dict[str, Any]:
        found: dict[str, Any] = next(arriving)
        return found

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {"type": "http", "method": "POST", "path": "/a2a", "headers": [(b"content-type", b"application/json")]}
    await BodyLimit(application, limit=10)(scope, receive, send)
    assert (bodies, answers) == (wanted, [])
