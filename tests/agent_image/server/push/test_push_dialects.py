"""Receivers that a message registers: they get notifications in the dialect of that message."""

from typing import Any

import pytest

V03 = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}}
V01 = {"id": "chosen", "message": {"role": "user", "parts": [{"type": "text", "text": "hello"}]}}


def v03(url: str) -> dict[str, Any]:
    return V03 | {"configuration": {"blocking": True, "pushNotificationConfig": {"url": url, "token": "k"}}}


def v01(url: str) -> dict[str, Any]:
    return V01 | {"pushNotification": {"url": url, "token": "k"}}


SENT = [
    pytest.param("message/send", v03, "kind", {"kind": "text", "text": "You said: hello"}, id="0.3"),
    pytest.param("tasks/send", v01, "sessionId", {"type": "text", "text": "You said: hello"}, id="0.1"),
]


@pytest.mark.parametrize(("method", "params", "mark", "part"), SENT)
async def test_push_inline_receiver_is_notified_in_its_dialect(
    receive: Any, open_push: Any, method: str, params: Any, mark: str, part: dict[str, str]
) -> None:
    hook = await receive()
    door = await open_push(hook)
    async with door.http() as http:
        del http.headers["A2A-Version"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params(hook.url)}
        task = (await http.post("/a2a", json=body)).json()["result"]
        await hook.until(1)
        while hook.heard[-1][1]["status"]["state"] != "completed":
            await hook.until(len(hook.heard) + 1)
    headers, told = hook.heard[-1]
    assert headers["x-a2a-notification-token"] == "k"
    assert (told["id"], mark in told, told["artifacts"][0]["parts"]) == (task["id"], True, [part])


async def test_push_0_1_registration_replaces_the_former(receive: Any, open_push: Any) -> None:
    hook = await receive()
    door = await open_push(hook)
    async with door.http() as http:
        del http.headers["A2A-Version"]

        async def call(method: str, params: Any) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer: dict[str, Any] = (await http.post("/a2a", json=body)).json()
            return answer

        await call("tasks/send", V01)
        for token in ("one", "two"):
            config = {"url": hook.url, "token": token}
            await call("tasks/pushNotification/set", {"id": "chosen", "pushNotificationConfig": config})
        found = (await call("tasks/pushNotification/get", {"id": "chosen"}))["result"]
        assert found["pushNotificationConfig"]["url"] == hook.url
        listed = await call("tasks/pushNotificationConfig/list", {"id": "chosen"})
        assert len(listed["result"]) == 1
        assert (await call("tasks/pushNotification/get", {"id": "nobody"}))["error"]["code"] == -32001
