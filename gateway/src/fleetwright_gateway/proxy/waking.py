"""Which requests wake a sleeping agent: messages, and requests about tasks. Pure.

A card, an unknown path and a body that is no A2A call do not wake an agent. A test compares the tables with the
dialects, which the gateway does not import because of their size.
"""

import re
from typing import Final

from a2a.utils.errors import A2AError

from fleetwright_a2a.errors import RPC_PATH
from fleetwright_a2a.http.envelope import opened, parse

METHODS: Final = frozenset(
    {
        "CancelTask",
        "CreateTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfig",
        "GetTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "ListTasks",
        "SendMessage",
        "SendStreamingMessage",
        "SubscribeToTask",
        "message/send",
        "message/sendStream",
        "message/sendSubscribe",
        "message/stream",
        "tasks/cancel",
        "tasks/get",
        "tasks/pushNotification/get",
        "tasks/pushNotification/set",
        "tasks/pushNotificationConfig/delete",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/set",
        "tasks/resubscribe",
        "tasks/send",
        "tasks/sendSubscribe",
    }
)
"""The methods of JSON-RPC, in all dialects."""
_PATHS: Final = {
    "POST": re.compile(r"/message:(send|stream)|/tasks/[^/]+(:(cancel|subscribe)|/pushNotificationConfigs)"),
    "GET": re.compile(r"/tasks(/[^/]+(/pushNotificationConfigs(/[^/]+)?)?)?"),
    "DELETE": re.compile(r"/tasks/[^/]+/pushNotificationConfigs/[^/]+"),
}
"""The paths of HTTP+JSON by verb, below one of the prefixes."""
_PREFIX: Final = re.compile(rf"({re.escape(RPC_PATH)})?(/v1)?(?=/)")


def may_wake(verb: str, path: str, body: bytes) -> bool:
    """Return whether a request may wake the agent. Args: `path` is the path at the agent."""
    if verb == "POST" and path in {RPC_PATH, f"{RPC_PATH}/"}:
        return _is_call(body)
    prefix = _PREFIX.match(path)
    pattern = _PATHS.get("GET" if verb == "HEAD" else verb)
    return prefix is not None and pattern is not None and pattern.fullmatch(path, prefix.end()) is not None


def _is_call(body: bytes) -> bool:
    try:
        return opened(parse(body)).method in METHODS
    except A2AError:
        return False
