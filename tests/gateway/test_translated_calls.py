"""Callers of A2A 0.3 and 0.1 at the gateway, and an agent of the a2a-sdk that supports only A2A 1.0."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.gateway.calls import CALLEE, caller_token
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.sdk_agent import SdkAgent
from tests.support.gateway.served_gateway import CARD, Client, running
from tests.support.waiting import within

from fleetwright_gateway.settings import GatewaySettings

pytestmark = pytest.mark.process


@pytest.fixture
async def agent() -> AsyncIterator[SdkAgent]:
    found = SdkAgent()
    async with found.serving():
        yield found


@pytest.fixture
async def client(api: FleetApi, settings: GatewaySettings, agent: SdkAgent) -> AsyncIterator[Client]:
    reach = {"fleet": {"reach": "Direct"}}
    api.add_running_agent("caller", spec=reach)
    api.add_running_agent("callee", spec=reach)
    api.add_card("callee", CARD)
    async with running(api, replace(settings, agent_port=agent.port)) as found:
        yield found


class Caller:
    """Sends raw JSON-RPC through the gateway, in one version of A2A."""

    def __init__(self, client: Client, token: str, *, version: str = "") -> None:
        self._client = client
        self._token = token
        self._headers = {"A2A-Version": version} if version else {}

    def _posted(self, method: str, params: Any, request_id: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return self._client.request("POST", f"{CALLEE}/a2a", token=self._token, json=body, headers=self._headers)

    async def call(self, method: str, params: Any, *, request_id: Any = "r") -> Any:
        async with self._posted(method, params, request_id) as answer:
            assert answer.status == 200
            found = await answer.json()
        assert (found.pop("jsonrpc"), found.pop("id")) == ("2.0", request_id)
        return found.get("result", found.get("error"))

    async def stream(self, method: str, params: Any) -> list[Any]:
        async with self._posted(method, params, "r") as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            text = await answer.text()
        lines = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        assert {line["id"] for line in lines} == {"r"}
        return [line.get("result", line.get("error")) for line in lines]


def v01(text: str, task: str = "mine", **more: Any) -> dict[str, Any]:
    return {"id": task, "message": {"role": "user", "parts": [{"type": "text", "text": text}]}, **more}


def v03(text: str, **more: Any) -> dict[str, Any]:
    parts = [{"kind": "text", "text": text}]
    return {"message": {"kind": "message", "messageId": "m-1", "role": "user", "parts": parts, **more}}


async def test_v01_message_runs_a_task_with_its_chosen_id(api, client, agent):
    task = await Caller(client, caller_token(api)).call("tasks/send", v01("hello", sessionId="s"))
    assert (task["id"], task["sessionId"], task["status"]["state"]) == ("mine", "s", "completed")
    assert task["artifacts"][0]["parts"] == [{"type": "text", "text": "Done with "}, {"type": "text", "text": "hello."}]
    assert task["history"] == []
    assert set(agent.versions) == {"1.0"}


V10_SEND = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
UNKNOWN_VERSIONS = [
    ("1.1", "SendMessage", V10_SEND),
    ("1.1", "message/send", v03("hello")),
    ("0.4", "message/send", v03("hello")),
    ("0.0", "tasks/send", v01("hello")),
    ("2.0", "tasks/get", {"id": "mine"}),
]


@pytest.mark.parametrize(("version", "method", "params"), UNKNOWN_VERSIONS)
async def test_unknown_version_is_refused(api, client, agent, version, method, params):
    error = await Caller(client, caller_token(api), version=version).call(method, params)
    assert error["code"] == -32009, error
    assert agent.methods == []


async def test_unknown_version_is_refused_over_rest(api, client, agent):
    headers = {"A2A-Version": "1.1"}
    path = f"{CALLEE}/a2a/message:send"
    async with client.request("POST", path, token=caller_token(api), json=V10_SEND, headers=headers) as answer:
        assert answer.status == 400
        error = (await answer.json())["error"]
    assert error["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_patch_of_a_known_version_is_served(api, client, agent):
    answer = await Caller(client, caller_token(api), version="1.0.1").call("SendMessage", V10_SEND)
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


ENDINGS = [
    ("hello", "completed", "completed"),
    ("fail", "failed", "failed"),
    ("reject", "rejected", "failed"),
    ("ask", "input-required", "input-required"),
    ("login", "auth-required", "input-required"),
]


@pytest.mark.parametrize(("text", "in_v03", "in_v01"), ENDINGS)
async def test_tasks_end_in_the_state_of_their_version(api, client, agent, text, in_v03, in_v01):
    newer = Caller(client, caller_token(api))
    task = await newer.call("message/send", v03(text))
    assert (task["kind"], task["status"]["state"]) == ("task", in_v03)
    read = await newer.call("tasks/get", {"id": task["id"]})
    assert (read["id"], read["status"]["state"]) == (task["id"], in_v03)
    older = Caller(client, caller_token(api))
    task = await older.call("tasks/send", v01(text))
    assert (task["id"], task["status"]["state"]) == ("mine", in_v01)
    read = await older.call("tasks/get", {"id": "mine"})
    assert (read["id"], read["sessionId"], read["status"]["state"]) == ("mine", task["sessionId"], in_v01)


@pytest.mark.parametrize(("text", "in_v03", "in_v01"), ENDINGS)
async def test_streams_end_with_the_state_of_their_version(api, client, agent, text, in_v03, in_v01):
    caller = Caller(client, caller_token(api))
    told = await caller.stream("message/stream", v03(text))
    assert (told[0]["kind"], told[-1]["kind"], told[-1]["status"]["state"]) == ("task", "status-update", in_v03)
    assert [each["final"] for each in told if each["kind"] == "status-update"] == [False, True]
    told = await caller.stream("tasks/sendSubscribe", v01(text))
    assert (told[-1]["id"], told[-1]["status"]["state"]) == ("mine", in_v01)
    assert [each["final"] for each in told if "status" in each] == [False, True]
    assert all(set(each) <= {"id", "status", "final", "artifact"} and each["id"] == "mine" for each in told)


async def test_v01_stream_of_a_waiting_task_ends_at_once(api, client, agent):
    caller = Caller(client, caller_token(api))
    await caller.call("tasks/send", v01("ask"))
    async with within("the stream of the waiting task ends"):
        told = await caller.stream("tasks/resubscribe", {"id": "mine"})
    assert [(each["id"], each["status"]["state"], each["final"]) for each in told] == [("mine", "input-required", True)]


async def test_v01_stream_numbers_the_pieces_of_an_artifact(api, client, agent):
    told = await Caller(client, caller_token(api)).stream("tasks/sendSubscribe", v01("hello"))
    pieces = [each["artifact"] for each in told if "artifact" in each]
    assert [(each["index"], each["append"], each.get("lastChunk")) for each in pieces] == [
        (0, False, None),
        (0, True, True),
    ]


async def test_v01_words_for_output_modes_become_media_types(api, client, agent):
    """The words stay in the list. Media types are not repeated, and those of A2A 0.3 pass unchanged."""
    caller = Caller(client, caller_token(api))
    await caller.call("tasks/send", v01("hello", acceptedOutputModes=["data", "text", "text/plain"]))
    await caller.call("message/send", {**v03("hello"), "configuration": {"acceptedOutputModes": ["text"]}})
    assert agent.executor.accepted == [["data", "text", "text/plain", "application/json"], ["text"]]


async def test_v01_answer_continues_the_task_of_a_question(api, client, agent):
    caller = Caller(client, caller_token(api))
    asked = await caller.call("tasks/send", v01("ask"), request_id=1)
    assert asked["status"]["message"]["parts"] == [{"type": "text", "text": "about ask"}]
    answered = await caller.call("tasks/send", v01("yes", historyLength=10), request_id=2)
    assert (answered["id"], answered["sessionId"]) == ("mine", asked["sessionId"])
    assert answered["status"]["state"] == "completed"
    first, second = agent.executor.messages
    assert (second.task_id, second.context_id) == (first.task_id, first.context_id)
    texts = [part["text"] for said in answered["history"] for part in said["parts"]]
    assert [text for text in texts if text in {"ask", "yes"}] == ["ask", "yes"]
    assert not {"messageId", "kind"} & {key for said in answered["history"] for key in said}


async def test_v01_delegation_names_the_task_of_the_agent(api, client, agent):
    """The agent knows its own id of the task, and not the id that the caller has chosen."""
    caller = Caller(client, caller_token(api))
    await caller.call("tasks/send", v01("ask"), request_id=1)
    await caller.call("tasks/send", v01("yes"), request_id=2)
    sent = [task for method, task in zip(agent.methods, agent.delegated, strict=True) if method == "SendMessage"]
    first, second = agent.executor.messages
    assert (sent[1], "mine" in sent) == (second.task_id, False)
    assert all(sent)
    reads = [task for method, task in zip(agent.methods, agent.delegated, strict=True) if method != "SendMessage"]
    assert set(reads) == {None}
    assert first.task_id == second.task_id


@pytest.mark.parametrize("session", [{}, {"sessionId": "s"}], ids=["no session", "session"])
async def test_v01_repeated_message_runs_once(api, client, agent, session):
    caller = Caller(client, caller_token(api))
    for request_id in ("r", "r", "r"):
        task = await caller.call("tasks/send", v01("hello", **session), request_id=request_id)
        assert (task["id"], task["status"]["state"]) == ("mine", "completed")
    assert len(agent.executor.messages) == 1
    told = await caller.stream("tasks/sendSubscribe", v01("hello", **session))
    assert told[-1]["status"]["state"] == "completed"
    assert len(agent.executor.messages) == 1


async def test_v01_repeated_message_joins_the_running_task(api, client, agent):
    caller = Caller(client, caller_token(api))
    async with caller._posted("tasks/sendSubscribe", v01("hang"), "r") as first:
        line = b""
        while not line.startswith(b"data: "):
            line = await first.content.readline()
        task = await caller.call("tasks/send", v01("hang"))
        assert (task["id"], task["status"]["state"]) == ("mine", "working")
        second = await caller._posted("tasks/sendSubscribe", v01("hang"), "r").__aenter__()
        await caller.call("tasks/cancel", {"id": "mine"})
        for answer in (first, second):
            assert '"canceled"' in await answer.text()
        second.release()
    assert len(agent.executor.messages) == 1


async def test_v01_message_to_an_ended_task_is_refused(api, client, agent):
    caller = Caller(client, caller_token(api))
    await caller.call("tasks/send", v01("hello"), request_id=1)
    assert (await caller.call("tasks/send", v01("again"), request_id=2))["code"] == -32009
    assert len(agent.executor.messages) == 1


async def test_v01_equal_request_ids_identify_no_message(api, client, agent):
    """Some clients use one id for every request. An answer that repeats earlier text is still an answer."""
    caller = Caller(client, caller_token(api))
    for text in ("ask", "ask again", "ask", "ask"):
        await caller.call("tasks/send", v01(text), request_id=1)
    assert [each.parts[0].text for each in agent.executor.messages] == ["ask", "ask again", "ask", "ask"]


async def test_v01_session_holds_the_conversation_of_its_tasks(api, client, agent):
    caller = Caller(client, caller_token(api))
    for task in ("one", "two"):
        assert (await caller.call("tasks/send", v01("hello", task, sessionId="s")))["id"] == task
    first, second = agent.executor.messages
    assert (first.context_id, second.context_id) == ("s", "s")
    assert first.task_id != second.task_id
    read = await caller.call("tasks/get", {"id": "one"})
    assert (read["id"], read["artifacts"][0]["index"]) == ("one", 0)


async def test_chosen_ids_of_two_callers_are_separate(api, client, agent):
    api.grants.add(("grace", "team", "callee"))
    await Caller(client, caller_token(api)).call("tasks/send", v01("hello"))
    other = Caller(client, api.add_person("grace"))
    assert (await other.call("tasks/get", {"id": "mine"}))["code"] == -32001
    assert (await other.call("tasks/send", v01("hello")))["status"]["state"] == "completed"
    assert len(agent.executor.messages) == 2


@pytest.mark.parametrize(
    ("method", "params"), [("tasks/send", v01("hang")), ("message/send", v03("hang"))], ids=["0.1", "0.3"]
)
async def test_running_task_is_cancelled_and_followed(api, client, agent, method, params):
    caller = Caller(client, caller_token(api))
    streaming = {"tasks/send": "tasks/sendSubscribe", "message/send": "message/stream"}[method]
    async with caller._posted(streaming, params, "r") as answer:
        line = b""
        while not line.startswith(b"data: "):
            line = await answer.content.readline()
        told = json.loads(line[6:])["result"]
        task = told["id"] if method == "tasks/send" else told.get("taskId", told["id"])
        following = await caller._posted("tasks/resubscribe", {"id": task}, "r").__aenter__()
        cancelled = await caller.call("tasks/cancel", {"id": task})
        assert (cancelled["id"], cancelled["status"]["state"]) == (task, "canceled")
        assert '"canceled"' in await answer.text()
        assert '"canceled"' in await following.text()
        following.release()
    assert (await caller.call("tasks/cancel", {"id": task}))["code"] == -32002


async def test_answer_that_is_a_message_has_the_form_of_its_version(api, client, agent):
    caller = Caller(client, caller_token(api))
    reply = await caller.call("message/send", v03("reply"))
    assert (reply["kind"], reply["role"], reply["parts"][0]["text"]) == ("message", "agent", "about reply")
    task = await caller.call("tasks/send", v01("reply"))
    assert (task["id"], task["status"]["state"]) == ("mine", "completed")
    assert task["status"]["timestamp"] == "2026-03-01T12:00:00Z"
    assert task["status"]["message"] == {"role": "agent", "parts": [{"type": "text", "text": "about reply"}]}
    (told,) = await caller.stream("tasks/sendSubscribe", v01("reply", "second"))
    assert (told["id"], told["final"], told["status"]["message"]) == ("second", True, task["status"]["message"])


PUSH = {"url": "https://example.com/hook"}
NEWER, OLDER = "tasks/pushNotificationConfig", "tasks/pushNotification"
REFUSED = [
    pytest.param("", "tasks/get", {"id": "none"}, -32001, id="no such task"),
    pytest.param("0.1", "tasks/cancel", {"id": "none"}, -32001, id="no such task, in 0.1"),
    pytest.param("", "tasks/get", {}, -32602, id="no id"),
    pytest.param("", "message/send", {"message": {}}, -32602, id="no message"),
    pytest.param("", "tasks/send", {"id": "mine"}, -32602, id="no message, in 0.1"),
    pytest.param("", "message/send", v03("x", taskId="none"), -32001, id="a message to no task"),
    pytest.param("0.3", "tasks/send", v01("x"), -32009, id="another version"),
    pytest.param("", "agent/getAuthenticatedExtendedCard", {}, -32007, id="extended card"),
    pytest.param(
        "", "tasks/pushNotificationConfig/set", {"taskId": "t", "pushNotificationConfig": PUSH}, -32003, id="push"
    ),
    pytest.param("", f"{NEWER}/get", {"id": "t"}, -32003, id="push, read"),
    pytest.param("", f"{NEWER}/list", {"id": "t"}, -32003, id="push, list"),
    pytest.param(
        "",
        "tasks/pushNotificationConfig/delete",
        {"id": "t", "pushNotificationConfigId": "c"},
        -32003,
        id="push, delete",
    ),
    pytest.param(
        "", "tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": PUSH}, -32003, id="push, in 0.1"
    ),
    pytest.param("", f"{OLDER}/get", {"id": "t"}, -32003, id="push, read in 0.1"),
    pytest.param("", "tasks/send", v01("x", pushNotification=PUSH), -32003, id="push with a message, in 0.1"),
    pytest.param(
        "",
        "message/send",
        {**v03("x"), "configuration": {"pushNotificationConfig": PUSH}},
        -32003,
        id="push with a message",
    ),
]


@pytest.mark.parametrize(("version", "method", "params", "code"), REFUSED)
async def test_errors_have_the_code_of_their_version(api, client, agent, version, method, params, code):
    error = await Caller(client, caller_token(api), version=version).call(method, params)
    assert error["code"] == code, error
    assert error["message"]
    assert agent.executor.messages == []


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tasks/resubscribe", {"id": "none"}, -32001),
        ("message/stream", v03("x", taskId="none"), -32001),
        ("tasks/sendSubscribe", v01("x", pushNotification=PUSH), -32003),
    ],
)
async def test_stream_that_cannot_begin_has_one_error(api, client, agent, method, params, code):
    (error,) = await Caller(client, caller_token(api)).stream(method, params)
    assert error["code"] == code


async def test_calls_of_1_0_pass_without_translation(api, client, agent):
    caller = Caller(client, caller_token(api), version="1.0")
    sent = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    found = await caller.call("SendMessage", sent)
    assert found["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert agent.methods == ["SendMessage"]
