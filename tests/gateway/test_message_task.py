"""The task that a message names, in every dialect and binding: the delegation for the agent is bound to it."""

import json
import uuid
from typing import Any

import pytest
from tests.support.gateway.calls import CALLEE, build_interface, caller_token
from tests.support.gateway.fleet_api import NOW
from tests.support.gateway.served_gateway import CARD, URL

from fleetwright_a2a.bindings.rest import rest_routes
from fleetwright_a2a.dialects.dialect import SENDS
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v03_rest import V03_REST
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.tokens.delegation_token import verify_delegation
from fleetwright_a2a.tokens.keys import KeySet
from fleetwright_gateway.proxy.message_task import message_task
from fleetwright_gateway.proxy.request_kinds import MESSAGE_METHODS, TASK_METHODS


def call(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}).encode()


def body(**message: Any) -> bytes:
    return json.dumps({"message": message}).encode()


def test_message_methods_are_those_of_all_dialects():
    spoken = [(dialect, name, found) for dialect in (V10, V03, V01) for name, found in dialect.methods.items()]
    assert {name for _, name, found in spoken if found in SENDS} == MESSAGE_METHODS
    assert {name for dialect, name, found in spoken if found in SENDS and dialect.chooses_ids} == TASK_METHODS


def test_message_task_knows_every_path_that_sends_a_message():
    routes = rest_routes(None, [V10, V03_REST])  # type: ignore[arg-type] # nothing is called
    for verb, path in [(verb, route.path) for route in routes for verb in route.methods]:
        sends = path.endswith(("message:send", "message:stream"))
        assert (message_task(verb, path, body(taskId="t")) == "t") is sends, (verb, path)


@pytest.mark.parametrize(
    ("path", "sent", "wanted"),
    [
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": "t"}}), "t", id="1.0"),
        pytest.param("/a2a/", call("SendStreamingMessage", {"message": {"task_id": "t"}}), "t", id="name of the field"),
        pytest.param("/a2a", call("message/send", {"message": {"taskId": "t"}}), "t", id="0.3"),
        pytest.param("/a2a", call("tasks/send", {"id": "t", "message": {"taskId": "u"}}), "t", id="0.1"),
        pytest.param("/a2a", call("tasks/sendSubscribe", {"id": "größe"}), "größe", id="other characters"),
        pytest.param("/message:send", body(taskId="t"), "t", id="HTTP+JSON"),
        pytest.param("/a2a/v1/message:stream", body(task_id="t"), "t", id="HTTP+JSON of 0.3"),
        pytest.param("/v1/message:send", b'{"request": {"taskId": "t"}}', "t", id="request of 0.3"),
        pytest.param("/message%3Asend", body(taskId="t"), "t", id="an encoded path"),
        pytest.param(
            "/%612a", call("SendMessage", {"message": {"taskId": "t"}}), "t", id="an encoded path of JSON-RPC"
        ),
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": ""}}), "", id="an empty id"),
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": None}}), "", id="null"),
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": 5}}), "", id="a number"),
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": "x" * 129}}), "", id="a long id"),
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": "a\nb"}}), "", id="a line break"),
        pytest.param("/a2a", call("SendMessage", {"message": ["x"]}), "", id="a list"),
        pytest.param("/a2a", call("SendMessage", {"id": "t"}), "", id="no message"),
        pytest.param("/a2a", call("message/send", {"id": "t"}), "", id="the id of another version"),
        pytest.param("/message:send", b"{}", "", id="HTTP+JSON without a message"),
        pytest.param("/message:send", b"[]", "", id="HTTP+JSON with a list"),
        pytest.param("/a2a", call("GetTask", {"id": "t"}), None, id="another method"),
        pytest.param("/a2a", call("tasks/get", {"id": "t"}), None, id="a read of 0.1"),
        pytest.param("/a2a", call("SendMessage", {}, jsonrpc="1.0"), None, id="another JSON-RPC"),
        pytest.param("/a2a", b"[" + call("SendMessage", {}) + b"]", None, id="a batch"),
        pytest.param("/a2a", b'{"a": 1, "a": 2}', None, id="a name twice"),
        pytest.param("/a2a", b"{", None, id="no JSON"),
        pytest.param("/message:send", b"{", None, id="HTTP+JSON, no JSON"),
        pytest.param("/tasks/t:cancel", b"{}", None, id="a cancellation"),
        pytest.param("/other", body(taskId="t"), None, id="another path"),
    ],
)
def test_message_task_is_where_the_dialect_has_it(path, sent, wanted):
    assert message_task("POST", path, sent) == wanted
    assert message_task("GET", path, sent) is None


@pytest.mark.process
@pytest.mark.parametrize(
    ("path", "sent", "wanted"),
    [
        pytest.param("/a2a", call("SendMessage", {"message": {"taskId": "t"}}), "t", id="1.0"),
        pytest.param("/message:send", body(taskId="t"), "t", id="HTTP+JSON"),
        pytest.param("/a2a", call("message/send", {"message": {"taskId": "t"}}), "t", id="0.3"),
        pytest.param("/a2a", call("tasks/send", {"id": "t"}), "t", id="0.1"),
        pytest.param("/a2a", call("SendMessage", {"message": {}}), "", id="a message that begins a task"),
        pytest.param("/a2a", call("GetTask", {"id": "t"}), None, id="a read"),
        pytest.param("/a2a", b"{", None, id="no JSON"),
    ],
)
async def test_delegation_names_the_task_of_the_message(api, client, upstream, keys, path, sent, wanted):
    interfaces = [build_interface(version) for version in ("1.0", "0.3", "0.1")]
    api.add_card("callee", {**CARD, "supportedInterfaces": interfaces})
    kwargs = {"data": sent, "headers": {"Content-Type": "application/json"}}
    assert await client.status("POST", f"{CALLEE}{path}", token=caller_token(api), **kwargs) == 200
    (received,) = upstream.received
    assert received.body == sent
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert ("fleetwright-delegation" in headers) is (wanted is not None)
    if wanted is None:
        return
    ring = json.loads(keys.read_text())["keys"]
    verifier = KeySet([{name: jwk[name] for name in ("kty", "crv", "x", "y", "kid")} for jwk in ring])
    task = verify_delegation(headers["fleetwright-delegation"], verifier, issuer=URL, now=NOW).task
    assert task == wanted or (wanted == "" and uuid.UUID(task).version == 4)
