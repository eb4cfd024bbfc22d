"""Every method and path of every dialect answers any input in its dialect, without internal details.

The agent is a process with its own task log. The requests name its tasks, in every state.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import count_examples
from tests.support.machine import ceiling

from fleetwright_a2a.bindings.rest import _PATHS, _PREFIXES
from fleetwright_a2a.dialects.dialect import SENDS, STREAMS, Operation
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10

INTERNAL = re.compile(
    r"Traceback|pydantic|NoneType|object has no|-packages|protobuf|a2a_pb2|Exception|Value\(|sqlite|SELECT |Errno"
    r"|fleetwright_agent|starlette|uvicorn|\.py\b"
)
PATIENCE = 0.1
"""Seconds to wait for a call that may wait for a running task. These tests ignore later answers."""
_numbers = itertools.count()

ODD_LENGTHS = [0, 1, -1, 2**31 - 1, 2**31, 2**63, -(2**63), 10**400, "5", 1.5, True, None]
ODD_MOMENTS = [
    *("2026-03-01T12:00:00Z", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "1969-12-31T00:00:00+23:59"),
    *("", "yesterday", "2026-02-30T00:00:00Z", "2300-01-01T00:00:00Z", 7, None),
]
ODD = [None, True, -1, 10**400, float("inf"), "\ud83d", "\x00", "x" * 200, [[]], {"a": None}]
"""Values that are invalid at every place of any params."""
LENGTHS, MOMENTS = st.sampled_from(ODD_LENGTHS), st.sampled_from(ODD_MOMENTS)
TEXT = st.sampled_from(["", "\x00", "\ud83d", "\udc00x", "\U0001f600"]) | st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXT | MOMENTS | LENGTHS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
HEADERS: dict[str, st.SearchStrategy[bytes]] = {
    "A2A-Version": st.sampled_from([b"1.0", b"0.3", b"0.1", b"", b"9.9", b"1.0.0", b"1" * 900, b"\xff", b"1.0, 0.3"]),
    "A2A-Extensions": st.sampled_from(
        [b"https://fleetwright.dev/a2a/cost/v1", b",,", b"x" * 3000, b"\xe9", b"https://none.example/v9, a b"]
    ),
    "If-Modified-Since": st.sampled_from(
        [
            *(b"Mon, 01 Jan 2024 00:00:00 GMT", b"Mon, 01 Jan 99999999999 00:00:00 GMT", b"soon", b"0", b"\xff"),
            *(b"Mon, 1 Jan 0000 00:00:00 -2400", b"Mon, 01 Jan 2024 99:99:99 +9999999999"),
        ]
    ),
    "If-None-Match": st.sampled_from([b"*", b'W/"x"', b'"', b",,,", b"\xff", b'"sha256:0"' * 200]),
    "Origin": st.sampled_from([b"null", b"https://evil.example", b"", b"\xff"]),
    "Content-Type": st.sampled_from(
        [b"application/json", b"application/a2a+json; charset=utf-16", b"text/plain", b"", b"\xff", b";;;"]
    ),
    "Accept": st.sampled_from([b"text/event-stream", b"application/xml", b"\xff"]),
    "Last-Event-ID": st.sampled_from([b"0", b"-1", b"\xff"]),
}


class Caller:
    """A client that checks each response against the common rules for responses."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    def send(
        self, verb: str, path: str, *, may_wait: bool = False, **content: Any
    ) -> tuple[httpx.Response, str] | None:
        """Return the response and its text, or None if the call waits for a task. Streams end at the read timeout."""
        timeout = httpx.Timeout(ceiling(), read=PATIENCE if may_wait else ceiling())
        text = b""
        try:
            with self.agent.http.stream(verb, path, timeout=timeout, **content) as response:
                for piece in response.iter_raw():
                    text += piece
        except httpx.ReadTimeout:
            assert may_wait, f"{verb} {path} was not answered in time"
            if not text:
                self.agent.check()
                return None
        self.agent.check()
        told = text.decode()
        assert response.status_code < 500, told
        assert str(self.agent.root) not in told
        return response, told

    def call(self, path: str, body: bytes, headers: Mapping[str, bytes], *, may_wait: bool) -> None:
        """Make a JSON-RPC call, and check its response."""
        answered = self.send("POST", path, may_wait=may_wait, content=body, headers=headers)
        if answered is None:
            return
        response, text = answered
        if response.headers["content-type"].startswith("text/event-stream"):
            told = re.findall(r"^data: (.*?)\r?\n\r?\n", text, re.MULTILINE | re.DOTALL)
            assert told
            for each in told:
                check_rpc(each, response.status_code)
        else:
            check_rpc(text, response.status_code)


def check_rpc(text: str, status: int) -> None:
    answer = json.loads(text)
    assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), text
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] in (5, None)
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        assert answer["error"]["code"] != -32603 or status == 429, text
        assert isinstance(answer["error"]["message"], str)
        assert not INTERNAL.search(text), text


@pytest.fixture(scope="module")
def agent(run_agent: Callable[..., Any]) -> Iterator[Any]:
    with run_agent() as running:
        yield running


@pytest.fixture
def caller(agent: Any) -> Iterator[Caller]:
    agent.settle()
    yield Caller(agent)
    agent.cancel_all()


Pick = Callable[[list[Any]], Any]
"""A choice among values, of which the first is the usual one."""


def usual(operation: Operation, version: str, agent: Any, pick: Pick) -> dict[str, Any]:
    """Return valid params that name existing objects, so that the server examines any changed value."""
    best = 1 if operation in (Operation.CANCEL, Operation.SUBSCRIBE) else -2 if version == "0.1" else 0
    task, context = pick([agent.tasks[best], *agent.tasks]), pick(agent.contexts)
    push = {"id": "c", "url": agent.hook, "token": "t"}
    push["authentication"] = {"scheme": "Bearer", "schemes": ["Bearer"], "credentials": "c"}
    if operation in SENDS:
        return sending(version, agent, pick, push)
    if operation is Operation.LIST:
        moments = {"statusTimestampAfter": "2026-03-01T12:00:00Z", "includeArtifacts": True}
        page = {"pageSize": 1, "pageToken": agent.page_token, "historyLength": 1}
        return {"contextId": context, "status": pick(["TASK_STATE_COMPLETED", 4]), **moments, **page}
    if operation is Operation.SET_PUSH:
        return (
            {"taskId": task, "id": task, "pushNotificationConfig": push}
            if version in ("0.3", "0.1")
            else push | {"taskId": task}
        )
    if version == "1.0" and operation in (Operation.GET_PUSH, Operation.DELETE_PUSH):
        return {"taskId": task, "id": "c"}
    return {
        "id": task,
        "taskId": task,
        "pushNotificationConfigId": "c",
        "historyLength": 1,
        "pageSize": 1,
        "metadata": {},
    }


def sending(version: str, agent: Any, pick: Pick, push: dict[str, Any]) -> dict[str, Any]:
    names = pick([{}, {"taskId": agent.tasks[2]}, {"contextId": pick(agent.contexts)}, {"taskId": pick(agent.tasks)}])
    said = message(version, pick)
    if version == "0.1":
        task = pick([f"new-{next(_numbers)}", *agent.tasks])
        return {
            "id": task,
            "sessionId": pick(agent.contexts),
            "message": said,
            "pushNotification": push,
            "historyLength": 1,
        }
    configuration = {"historyLength": 1, "blocking": pick([True, False]), "acceptedOutputModes": ["text/plain"]}
    pushed = {"pushNotificationConfig": push} if version == "0.3" else {"taskPushNotificationConfig": push}
    if version == "0.3 REST":
        pushed = {"pushNotification": push}
    return {"message": {**said, **names}, "configuration": {**configuration, **pushed}, "metadata": {"a": 1}}


def message(version: str, pick: Pick) -> dict[str, Any]:
    typed = {"0.3": {"kind": "text"}, "0.1": {"type": "text"}}.get(version, {})
    parts: list[Any] = [{**typed, "text": pick(["x", "hang", "fail", "ask Sure?", "yes", "ü\u2028", "a" * 3000])}]
    if pick([False, False, False, True]):
        data: dict[str, Any] = {"approved": pick([True, "no"]), "answer": pick(["yes", {"a": [1]}])}
        parts.append({**dict.fromkeys(typed, "data"), "data": {"data": data} if version == "0.3 REST" else data})
    said: dict[str, Any] = {"messageId": pick([f"m{next(_numbers)}", "m"]), "metadata": {"a": 1}}
    said["role"] = "ROLE_USER" if version in ("1.0", "0.3 REST") else "user"
    said["content" if version == "0.3 REST" else "parts"] = parts
    return {**said, "kind": "message"} if version == "0.3" else said


EXTREMES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("historyLength", "pageSize"), LENGTHS),
    "statusTimestampAfter": MOMENTS,
    "text": TEXT,
    "pageToken": st.sampled_from(["", "AAAA", "%", "é", "\ud800"]),
    "status": st.sampled_from([-1, 99, "x"]),
}
REMOVED = object()


@st.composite
def changed(draw: Any, operation: Operation, version: str, agent: Any) -> Any:
    """Draw usual params in which up to two values are replaced or removed."""
    params = usual(operation, version, agent, lambda options: draw(st.sampled_from(options)))
    for _ in range(draw(st.integers(0, 2))):
        place: Any = params
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
            if not isinstance(place[key], dict | list) or draw(st.sampled_from([False, False, True])):
                other = draw(EXTREMES.get(str(key), JSON) | JSON | st.just(REMOVED))
                if other is REMOVED:
                    del place[key]
                else:
                    place[key] = other
                break
            place = place[key]
    return params


ONCE_IN_FOUR = st.sampled_from([False, False, False, True])


def odd_headers(draw: Any, **usual: bytes) -> dict[str, bytes]:
    """Draw valid headers, some of which may be replaced by others."""
    chosen = (
        draw(st.dictionaries(st.sampled_from(sorted(HEADERS)), st.none(), max_size=2)) if draw(ONCE_IN_FOUR) else {}
    )
    chosen = {name: draw(HEADERS[name]) for name in chosen}
    return {"Content-Type": b"application/json", **usual, **chosen}


def written(value: Any) -> bytes:
    """Return the value as JSON, with infinities as overflowing numbers."""
    return json.dumps(value).replace("-Infinity", "-1e999").replace("Infinity", "1e999").encode()


METHODS = [
    pytest.param(dialect.version, method, operation, id=f"{method} of {dialect.version}")
    for dialect in (V10, V03, V01)
    for method, operation in dialect.methods.items()
]
MANY = settings(
    max_examples=count_examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WAITING = SENDS | STREAMS


@pytest.mark.parametrize(("version", "method", "operation"), METHODS)
@MANY
@given(data=st.data())
def test_r8_methods_answer_any_params(
    caller: Caller, version: str, method: str, operation: Operation, data: st.DataObject
) -> None:
    params = data.draw(changed(operation, version, caller.agent))
    headers = odd_headers(data.draw, **{"A2A-Version": version.encode()})
    body = written({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
    caller.call(data.draw(st.sampled_from(["/a2a", "/a2a/"])), body, headers, may_wait=operation in WAITING)


@pytest.mark.parametrize(("version", "method", "operation"), METHODS)
def test_unchanged_params_of_every_method_succeed(
    caller: Caller, version: str, method: str, operation: Operation
) -> None:
    params = usual(operation, version, caller.agent, lambda options: options[0])
    body = written({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
    headers = {"Content-Type": b"application/json", "A2A-Version": version.encode()}
    lasts = operation is Operation.SUBSCRIBE
    answered = caller.send("POST", "/a2a", may_wait=lasts, content=body, headers=headers)
    if answered:  # A stream of 0.1 sends nothing until the next event.
        assert '"result"' in answered[1]
    else:
        assert method == "tasks/resubscribe"


def places(value: Any, *before: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in the document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*before, key)
        yield from places(inner, *before, key)


OF_NAMES = {**dict.fromkeys(("historyLength", "pageSize"), ODD_LENGTHS), "statusTimestampAfter": ODD_MOMENTS}


FIELDS = [
    pytest.param(
        dialect.version,
        method,
        operation,
        # The messages of a stream are those of the method that answers at once.
        marks=[pytest.mark.exhaustive] if operation in SENDS & STREAMS else [],
        id=f"{method} of {dialect.version}",
    )
    for dialect in (V10, V03, V01)
    for method, operation in dialect.methods.items()
]


@pytest.mark.parametrize(("version", "method", "operation"), FIELDS)
def test_r8_every_field_may_hold_a_value_of_another_type(
    caller: Caller, version: str, method: str, operation: Operation
) -> None:
    def fresh() -> dict[str, Any]:
        params = usual(operation, version, caller.agent, lambda options: options[0])
        # Subscribe to a finished task, because a stream of a running task would wait for the timeout.
        return params | ({"id": caller.agent.tasks[0]} if operation is Operation.SUBSCRIBE else {})

    headers = {"Content-Type": b"application/json", "A2A-Version": version.encode()}
    for way in places(fresh()):
        for value in OF_NAMES.get(str(way[-1]), ODD):
            params = place = fresh()
            for key in way[:-1]:
                place = place[key]
            place[way[-1]] = value
            body = written({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
            caller.call("/a2a", body, headers, may_wait=operation in SENDS)


BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 5000, b"\xef\xbb\xbf{}", b"NaN", b'"\\ud83d"', b"9" * 5000, b"\x00", b"[]", b"{}"]
    ),
    st.builds(
        lambda method, params, rest: b'{"jsonrpc":"2.0","id":5,"method":"%s","params":%s%s}' % (method, params, rest),
        st.sampled_from(sorted(method.encode() for dialect in (V10, V03, V01) for method in dialect.methods)),
        st.sampled_from([b"{}", b"null", b'{"id":"\\ud800"}', b'{"id":1e999}', b'{"id":"a","id":"b"}', b'{"id":[]}']),
        st.sampled_from([b"", b',"id":5', b',"method":"none"', b',"params":{}', b',"jsonrpc":2']),
    ),
)


@settings(MANY, max_examples=count_examples(80))
@given(data=st.data())
def test_r8_rpc_endpoint_answers_any_body(caller: Caller, data: st.DataObject) -> None:
    headers = odd_headers(data.draw)
    caller.call("/a2a", data.draw(BODIES), headers, may_wait=False)


PATHS = [pytest.param(verb, path, operation, id=f"{verb} {path}") for verb, path, operation, _ in _PATHS]
QUERY = {
    "historyLength": LENGTHS,
    "pageSize": LENGTHS | st.just(1),
    "pageToken": st.sampled_from(["AAAA", "%", "é", "\x00"]),
    "includeArtifacts": st.sampled_from(["true", "false", "maybe", ""]),
    "status": st.sampled_from(["TASK_STATE_WORKING", "4", "-1", "x"]),
    "statusTimestampAfter": MOMENTS,
    "contextId": TEXT.filter(lambda text: not re.search("[\ud800-\udfff]", text)),
    "tenant": st.just("t"),
}


@pytest.mark.parametrize(("verb", "path", "operation"), PATHS)
@settings(MANY, max_examples=count_examples(12))
@given(data=st.data())
def test_r8_rest_paths_answer_any_request(
    caller: Caller, verb: str, path: str, operation: Operation, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(["1.0", "0.3"]))
    spelling = version if version == "1.0" else "0.3 REST"
    odd = st.sampled_from(["x%20y", "a:cancel", "%00", "%C3%BC", "a" * 200, "%ff", "..", "%2e%2e"])
    strange = data.draw(ONCE_IN_FOUR)
    where = path.replace("{task}", data.draw(odd if strange else st.sampled_from(caller.agent.tasks)))
    where = data.draw(st.sampled_from(_PREFIXES)) + where.replace(
        "{config}", data.draw(odd if strange else st.just("c"))
    )
    names = data.draw(st.sets(st.sampled_from(sorted(QUERY)), max_size=1 if operation is Operation.LIST else 2))
    query = {name: data.draw(QUERY[name]) for name in sorted(names)}
    body = written(data.draw(changed(operation, spelling, caller.agent))) if verb == "POST" else b""
    headers = odd_headers(data.draw, **{"A2A-Version": version.encode()})
    answered = caller.send(verb, where, may_wait=operation in WAITING, params=query, content=body, headers=headers)
    if answered is not None:
        check_rest(*answered)


def check_rest(response: httpx.Response, text: str) -> None:
    if response.status_code < 400:
        return
    assert not INTERNAL.search(text), text
    if response.headers["content-type"] == "application/json":
        error = json.loads(text)["error"]
        assert error["code"] == response.status_code
        assert {"status", "message"} <= set(error)


PLACES = [
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/a2a",
    "/a2a/",
    "/",
    "/tasks",
    "/tasks/x",
    "/v1/card",
]
VERBS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONE"]


@settings(MANY, max_examples=count_examples(80))
@given(data=st.data())
def test_r8_any_verb_and_headers_at_any_path(caller: Caller, data: st.DataObject) -> None:
    headers = data.draw(st.fixed_dictionaries({}, optional=HEADERS))
    with_token = data.draw(st.booleans())
    sent = (
        headers if with_token else {**headers, "Authorization": data.draw(st.sampled_from([b"", b"Bearer", b"\xff"]))}
    )
    answered = caller.send(data.draw(st.sampled_from(VERBS)), data.draw(st.sampled_from(PLACES)), headers=sent)
    assert answered is not None
    assert not INTERNAL.search(answered[1]) or answered[0].status_code == 200, answered[1]
