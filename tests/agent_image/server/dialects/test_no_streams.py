"""An agent whose card offers no streams: every dialect refuses them with the code for an unsupported operation."""

import json
from typing import Any

import pytest

V10, V03, V01 = {"A2A-Version": "1.0"}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.1"}
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
SAID_03 = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
REST_03 = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}
SAID_01 = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize("streaming", [pytest.param(False, id="false"), pytest.param(None, id="not said")])
@pytest.mark.parametrize(
    ("path", "headers", "body", "code"),
    [
        pytest.param("/a2a", V10, rpc("SendStreamingMessage", {"message": SAID}), -32004, id="a message of 1.0"),
        pytest.param("/a2a", V10, rpc("SubscribeToTask", {"id": "t"}), -32004, id="a task of 1.0"),
        pytest.param("/a2a/message:stream", V10, {"message": SAID}, 400, id="HTTP and JSON of 1.0"),
        pytest.param("/a2a", V03, rpc("message/stream", {"message": SAID_03}), -32004, id="a message of 0.3"),
        pytest.param("/a2a", V03, rpc("tasks/resubscribe", {"id": "t"}), -32004, id="a task of 0.3"),
        pytest.param("/a2a/v1/message:stream", V03, {"message": REST_03}, -32004, id="HTTP and JSON of 0.3"),
        pytest.param("/a2a", V01, rpc("tasks/sendSubscribe", {"id": "t", "message": SAID_01}), -32004, id="0.1"),
    ],
)
async def test_streaming_is_refused_if_the_card_does_not_offer_it(
    open_door, mounted, path, headers, body, code, streaming
):
    card = json.loads(mounted.layout.card_file.read_text())
    card["capabilities"] = {} if streaming is None else {"streaming": streaming}
    mounted.write(mounted.layout.card_file, card)
    door = await open_door()
    async with door.http() as http:
        refused = await http.post(path, json=body, headers=headers)
    document = json.loads(refused.text.removeprefix("data: "))
    error = document if "code" in document else document["error"]
    assert (error["code"], "capabilities.streaming" in error["message"]) == (code, True)


async def test_send_message_works_without_streaming(open_door, mounted):
    card = json.loads(mounted.layout.card_file.read_text())
    card["capabilities"] = {"streaming": False}
    mounted.write(mounted.layout.card_file, card)
    door = await open_door()
    assert (await door.say("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
