"""A request for every method of every dialect, over both bindings. The server refuses most."""

import json
from typing import Any, Final, NamedTuple


class Ask(NamedTuple):
    verb: str
    path: str
    body: bytes


_UNKNOWN: Final = {"id": "unknown"}
_MUTE: Final = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": []}}
_PUSH: Final = {"taskId": "unknown", "id": "p", "url": "https://hooks.example.com/"}
_PUSH_03: Final = {"taskId": "unknown", "pushNotificationConfig": {"url": "https://hooks.example.com/"}}
_METHODS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("GetTask", _UNKNOWN),
    ("ListTasks", {"pageSize": 5}),
    ("CancelTask", _UNKNOWN),
    ("SubscribeToTask", _UNKNOWN),
    ("SendMessage", {"message": {"messageId": 7}}),
    ("SendStreamingMessage", {"message": {"messageId": 7}}),
    ("CreateTaskPushNotificationConfig", _PUSH),
    ("GetTaskPushNotificationConfig", {"taskId": "unknown", "id": "p"}),
    ("ListTaskPushNotificationConfigs", {"taskId": "unknown"}),
    ("DeleteTaskPushNotificationConfig", {"taskId": "unknown", "id": "p"}),
    ("GetExtendedAgentCard", {}),
    ("Nonsense", {}),
    ("message/send", _MUTE),
    ("message/stream", _MUTE),
    ("tasks/get", _UNKNOWN),
    ("tasks/cancel", _UNKNOWN),
    ("tasks/resubscribe", _UNKNOWN),
    ("tasks/pushNotificationConfig/set", _PUSH_03),
    ("tasks/pushNotificationConfig/get", _UNKNOWN),
    ("tasks/pushNotificationConfig/list", _UNKNOWN),
    ("tasks/pushNotificationConfig/delete", {"id": "unknown", "pushNotificationConfigId": "p"}),
    ("agent/getAuthenticatedExtendedCard", {}),
    ("tasks/send", {"id": "x", "message": {"role": "user", "parts": []}}),
    ("tasks/sendSubscribe", {"id": "x", "message": {"role": "user", "parts": []}}),
    ("tasks/pushNotification/set", {"id": "unknown", "pushNotificationConfig": {"url": "https://hooks.example.com/"}}),
    ("tasks/pushNotification/get", _UNKNOWN),
)
_PATHS: Final[tuple[tuple[str, str, dict[str, Any] | None], ...]] = (
    ("POST", "/message:send", _MUTE),
    ("POST", "/message:stream", _MUTE),
    ("GET", "/tasks?pageSize=5", None),
    ("GET", "/tasks/unknown", None),
    ("POST", "/tasks/unknown:cancel", {}),
    ("GET", "/tasks/unknown:subscribe", None),
    ("POST", "/tasks/unknown/pushNotificationConfigs", {"url": "https://hooks.example.com/"}),
    ("GET", "/tasks/unknown/pushNotificationConfigs", None),
    ("GET", "/tasks/unknown/pushNotificationConfigs/p", None),
    ("DELETE", "/tasks/unknown/pushNotificationConfigs/p", None),
    ("GET", "/extendedAgentCard", None),
    ("GET", "/nowhere", None),
)


def every_request() -> list[Ask]:
    called = [
        Ask("POST", "/a2a", json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        for method, params in _METHODS
    ]
    gone_to = [
        Ask(verb, f"{prefix}{path}", b"" if body is None else json.dumps(body).encode())
        for prefix in ("/a2a", "/a2a/v1")
        for verb, path, body in _PATHS
    ]
    return called + gone_to
