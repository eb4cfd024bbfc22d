"""Budgets at the gateway: which statuses refuse, and what callers of an agent whose budget is used up receive."""

import json
from dataclasses import replace
from urllib.parse import unquote

import pytest
from tests.support.gateway.calls import ASLEEP, CALLEE, MESSAGE, caller_token
from tests.support.gateway.fleet_api import NOW
from tests.support.gateway.served_gateway import running

from fleetwright_a2a.dialects.dialect import SENDS
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.extension_codec import mime_type
from fleetwright_a2a.extensions import CONTEXT_TITLE, WORKSPACE_UNDO
from fleetwright_api.spec.agent import parse_agent
from fleetwright_gateway.access.budgets import exhausted_budget, has_unreported_budget
from fleetwright_gateway.proxy.request_kinds import MESSAGE_METHODS

BEFORE, SOON, LATER = "2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z", "2026-03-02T00:00:00Z"
"""The time of the test, which is the moment of a reset, and two later ones."""
HOUR, DAY = {"period": "Hour", "tokens": 9}, {"period": "Day", "usd": "25"}
REACH = {"fleet": {"reach": "Direct"}}


def full(budget, until):
    return {**budget, "exhaustedUntil": until}


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        pytest.param([DAY], [full(DAY, LATER)], ("25 US dollars a day", LATER), id="used up"),
        pytest.param([DAY], [DAY], None, id="room"),
        pytest.param([DAY], [full(DAY, BEFORE)], None, id="reset"),
        pytest.param([DAY], [], None, id="never reported"),
        pytest.param([{**DAY, "usd": "50"}], [full(DAY, LATER)], None, id="raised"),
        pytest.param([], [full(DAY, LATER)], None, id="removed"),
        pytest.param([{**DAY, "onExceeded": "Pause"}], [full(DAY, LATER)], None, id="tasks wait"),
        pytest.param(
            [{**DAY, "onExceeded": "Reject"}], [full(DAY, LATER)], ("25 US dollars a day", LATER), id="reject"
        ),
        pytest.param([HOUR, DAY], [full(HOUR, SOON), DAY], ("9 tokens an hour", SOON), id="one of two"),
        pytest.param([HOUR, DAY], [full(HOUR, SOON), full(DAY, LATER)], ("25 US dollars a day", LATER), id="both"),
        pytest.param([DAY], [full(DAY, "soon")], None, id="no time"),
    ],
)
def test_exhausted_budget_needs_a_later_reset_and_equal_limits(spec, status, wanted):
    metadata = {"namespace": "team", "name": "callee"}
    agent = parse_agent({"metadata": metadata, "spec": {"budgets": spec}, "status": {"budgets": status}})
    found = exhausted_budget(agent, now=NOW)
    assert wanted == (None if found is None else (found.name, found.resets_at))


@pytest.mark.parametrize(
    ("spec", "status", "unreported"),
    [
        pytest.param([], [], False, id="no budgets"),
        pytest.param([DAY], [DAY], False, id="reported"),
        pytest.param([HOUR, DAY], [DAY], True, id="one of two"),
        pytest.param([{**DAY, "usd": "50"}], [DAY], True, id="changed since"),
        pytest.param([{**DAY, "onExceeded": "Pause"}], [], False, id="tasks wait"),
    ],
)
def test_unreported_budget_is_one_that_the_status_lacks(spec, status, unreported):
    metadata = {"namespace": "team", "name": "callee"}
    agent = parse_agent({"metadata": metadata, "spec": {"budgets": spec}, "status": {"budgets": status}})
    assert has_unreported_budget(agent) is unreported


def test_messages_are_those_of_all_dialects():
    spoken = {name: found for dialect in (V10, V03, V01) for name, found in dialect.methods.items()}
    assert {name for name, found in spoken.items() if found in SENDS} == MESSAGE_METHODS


def call(method):
    return {**MESSAGE, "method": method}


def sent(params=None, *, method="SendMessage", **message):
    return {**call(method), "params": {**(params or {}), "message": message}}


UNDO_PART = {"kind": "data", "data": {"taskId": "t-1"}, "metadata": {"mimeType": mime_type(WORKSPACE_UNDO)}}


@pytest.mark.parametrize(
    ("verb", "path", "body", "status"),
    [
        pytest.param("POST", "/a2a", call("SendMessage"), 402, id="1.0"),
        pytest.param("POST", "/a2a", call("message/stream"), 402, id="0.3"),
        pytest.param("POST", "/a2a", call("tasks/sendSubscribe"), 402, id="0.1"),
        pytest.param("POST", "/message:send", {}, 402, id="HTTP+JSON"),
        pytest.param("POST", "/v1/message:stream", {}, 402, id="HTTP+JSON of 0.3"),
        pytest.param("POST", "/message%3Asend", {}, 402, id="HTTP+JSON, with an encoded path"),
        pytest.param("POST", "/%612a", call("SendMessage"), 402, id="1.0, with an encoded path"),
        pytest.param("POST", "/a2a", sent(metadata={"origin": "x"}, parts=[{"text": "Hi"}]), 402, id="with metadata"),
        pytest.param("POST", "/a2a", call("GetTask"), 200, id="read"),
        pytest.param("POST", "/a2a", call("tasks/resubscribe"), 200, id="subscription"),
        pytest.param("POST", "/a2a", call("CancelTask"), 200, id="cancellation"),
        pytest.param("POST", "/tasks/t-1:cancel", {}, 200, id="cancellation by HTTP+JSON"),
        pytest.param("GET", "/tasks/t-1", None, 200, id="read by HTTP+JSON"),
        pytest.param("GET", "/.well-known/agent-card.json", None, 200, id="card"),
    ],
)
async def test_proxy_refuses_only_messages_over_budget(api, client, upstream, verb, path, body, status):
    api.add_agent("callee", spec={**REACH, "budgets": [DAY]}, status={"budgets": [full(DAY, LATER)]})
    async with client.request(verb, f"{CALLEE}{path}", token=caller_token(api), json=body) as answer:
        found, text = answer.status, await answer.text()
    assert found == status
    if status != 402:
        return
    assert answer.headers["Retry-After"] == str(12 * 3600 + 1)
    assert upstream.received == []
    sentence = f"The budget of this agent, 25 US dollars a day, is used up; there is room again at {LATER}."
    error = json.loads(text)["error"]
    assert error["message"] == sentence
    assert error["code"] == (-32600 if unquote(path) == "/a2a" else 402)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/a2a", sent(metadata={WORKSPACE_UNDO: {"taskId": "t-1"}}), id="undo"),
        pytest.param("/a2a", sent({"metadata": {CONTEXT_TITLE: {"title": "Sea"}}}), id="title, in the request"),
        pytest.param("/a2a", sent(parts=[UNDO_PART], method="message/send"), id="undo, in a part"),
        pytest.param("/message:send", {"message": {"metadata": {CONTEXT_TITLE: {}}}}, id="title by HTTP+JSON"),
        pytest.param("/a2a", sent(taskId="t-1"), id="the answer to a task"),
        pytest.param("/%612a", sent(taskId="t-1"), id="the answer to a task, with an encoded path"),
        pytest.param("/a2a", sent({"id": "t-1"}, method="tasks/send"), id="the answer to a task, 0.1"),
        pytest.param("/a2a", sent(metadata={"model": "small"}), id="another model"),
    ],
)
async def test_proxy_passes_messages_that_may_need_no_budget(api, client, upstream, path, body):
    api.add_agent("callee", spec={**REACH, "budgets": [DAY]}, status={"budgets": [full(DAY, LATER)]})
    assert await client.status("POST", f"{CALLEE}{path}", token=caller_token(api), json=body) == 200


async def test_proxy_wakes_no_agent_whose_budget_is_used_up(api, client, upstream):
    api.remove("Pod", "callee-1-a")
    spec = {**REACH, "sleep": {"afterIdle": "15m"}, "budgets": [DAY]}
    api.add_agent("callee", spec=spec, status={**ASLEEP, "budgets": [full(DAY, LATER)]})
    assert await client.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 402
    hidden = {"spec": {"budgets": [DAY]}, "status": {"budgets": [full(DAY, LATER)]}}
    api.add_agent("hidden", **hidden)
    assert await client.status("POST", "/agents/team/hidden/a2a", token=caller_token(api), json=MESSAGE) == 404
    assert not [write for write in api.writes if write.startswith("merge")]


@pytest.mark.parametrize("refuse", [False, True], ids=["passes", "is refused"])
async def test_proxy_treats_unreported_budgets_as_configured(api, settings, upstream, refuse):
    api.add_running_agent("caller", spec=REACH)
    api.add_running_agent("callee", spec=REACH)
    async with running(api, replace(settings, refuse_unreported_budgets=refuse)) as gateway:
        token, budgets = caller_token(api), {**REACH, "budgets": [DAY]}
        api.add_agent("callee", spec=budgets)
        async with gateway.request("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) as answer:
            assert answer.status == (503 if refuse else 200)
            assert answer.headers.get("Retry-After") == ("10" if refuse else None)
        assert await gateway.status("POST", f"{CALLEE}/a2a", token=token, json=call("GetTask")) == 200
        api.add_agent("callee", spec=budgets, status={"budgets": [DAY]})
        assert await gateway.status("POST", f"{CALLEE}/a2a", token=token, json=MESSAGE) == 200


async def test_proxy_wakes_an_agent_that_never_reported_budgets(api, settings, upstream):
    """An agent that sleeps reports nothing, so a refusal would never end."""
    api.add_running_agent("caller", spec=REACH)
    api.add_running_agent("callee", spec=REACH)
    async with running(api, replace(settings, refuse_unreported_budgets=True)) as gateway:
        spec = {**REACH, "sleep": {"afterIdle": "15m"}, "budgets": [DAY]}
        api.add_agent("callee", spec=spec, status=ASLEEP)
        assert await gateway.status("POST", f"{CALLEE}/a2a", token=caller_token(api), json=MESSAGE) == 200
