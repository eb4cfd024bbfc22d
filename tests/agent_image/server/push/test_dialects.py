"""Push in every dialect: registration, reading back and notifications use the same dialect."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest


async def at_once(request: TurnRequest) -> AsyncIterator[Frame]:
    yield TurnDone(f"You said: {request.text}")


async def posted(door: Any, body: dict[str, Any], version: str | None = None) -> dict[str, Any]:
    headers = {"A2A-Version": version} if version else {}
    async with door.http() as http:
        del http.headers["A2A-Version"]
        answer: dict[str, Any] = (await http.post("/a2a", json=body, headers=headers)).json()
        return answer


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


MESSAGE_03 = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
MESSAGE_01 = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


def sends(url: str) -> dict[str, dict[str, Any]]:
    """The message of each dialect that includes a registration."""
    config = {"url": url, "token": "t"}
    return {
        "0.3": rpc("message/send", message=MESSAGE_03, configuration={"pushNotificationConfig": config}),
        "0.1": rpc("tasks/send", id="t1", message=MESSAGE_01, pushNotification=config),
    }


@pytest.mark.parametrize("dialect", ["0.3", "0.1"])
async def test_push_inline_registration_notifies_in_its_dialect(open_push: Any, receive: Any, dialect: str) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    task = (await posted(door, sends(hook.url)[dialect]))["result"]
    await hook.until(1)
    while hook.heard[-1][1]["status"]["state"] != "completed":
        await hook.until(len(hook.heard) + 1)
    headers, body = hook.heard[-1]
    assert headers["authorization"] == "Bearer t"
    assert (body["id"], body["status"]["state"]) == (task["id"], "completed")
    part = {"0.3": {"kind": "text"}, "0.1": {"type": "text"}}[dialect] | {"text": "You said: hello"}
    assert body["artifacts"][0]["parts"] == [part]
    assert ("contextId" in body, "sessionId" in body) == {"0.3": (True, False), "0.1": (False, True)}[dialect]


async def test_push_0_3_sets_gets_lists_and_deletes(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    task = await door.say("hello")
    config = {"url": hook.url, "id": "a", "token": "t"}
    made = await posted(door, rpc("tasks/pushNotificationConfig/set", taskId=task["id"], pushNotificationConfig=config))
    assert made["result"]["pushNotificationConfig"]["url"] == hook.url
    await hook.until(1)
    assert hook.heard[0][1]["kind"] == "task"
    place = {"id": task["id"], "pushNotificationConfigId": "a"}
    read = await posted(door, rpc("tasks/pushNotificationConfig/get", **place))
    assert read["result"] == made["result"]
    listed = await posted(door, rpc("tasks/pushNotificationConfig/list", id=task["id"]))
    assert listed["result"] == [made["result"]]
    assert "error" not in await posted(door, rpc("tasks/pushNotificationConfig/delete", **place))
    assert (await posted(door, rpc("tasks/pushNotificationConfig/get", **place)))["error"]["code"] == -32001


async def test_push_0_1_sets_and_gets(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    await posted(door, rpc("tasks/send", id="t1", message=MESSAGE_01))
    made = await posted(door, rpc("tasks/pushNotification/set", id="t1", pushNotificationConfig={"url": hook.url}))
    assert made["result"] == {"id": "t1", "pushNotificationConfig": {"url": hook.url}}
    await hook.until(1)
    assert (hook.heard[0][1]["id"], hook.heard[0][1]["status"]["state"]) == ("t1", "completed")
    assert (await posted(door, rpc("tasks/pushNotification/get", id="t1")))["result"] == made["result"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(sends("http://10.0.0.1/")["0.3"], -32602, id="0.3, an address that is not allowed"),
        pytest.param(sends("http://10.0.0.1/")["0.1"], -32602, id="0.1, an address that is not allowed"),
    ],
)
async def test_push_registration_is_refused_in_every_dialect(
    open_push: Any, receive: Any, body: dict[str, Any], code: int
) -> None:
    door = await open_push(await receive(), script=at_once)
    assert (await posted(door, body))["error"]["code"] == code
    assert door.turn.requests == []


@pytest.mark.parametrize("dialect", ["0.3", "0.1"])
async def test_push_disabled_is_reported_in_every_dialect(open_door: Any, dialect: str) -> None:
    door = await open_door()
    assert (await posted(door, sends("https://hooks.example.com/")[dialect]))["error"]["code"] == -32003


async def test_push_over_rest_creates_gets_lists_and_deletes(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    task = await door.say("hello")
    folder = f"/a2a/tasks/{task['id']}/pushNotificationConfigs"
    async with door.http() as http:
        made = await http.post(folder, json={"url": hook.url, "id": "a"})
        assert made.status_code == 200, made.text
        await hook.until(1)
        assert "task" in hook.heard[0][1]
        assert (await http.get(f"{folder}/a")).json() == made.json()
        assert (await http.get(folder)).json() == {"configs": [made.json()]}
        assert (await http.delete(f"{folder}/a")).status_code in (200, 204)
        assert (await http.get(f"{folder}/a")).status_code == 404
