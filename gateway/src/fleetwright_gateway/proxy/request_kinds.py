"""Classifies requests: those that wake a sleeping agent, and those that send a message. Pure.

The paths are those that the caller has sent. The agent decodes a path before it chooses a route, so the functions here
decode it too.

A card, an unknown path and a body that is no A2A call do not wake an agent. A test compares the tables with the
dialects, which the gateway does not import because of their size.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from a2a.utils.errors import A2AError

from fleetwright_a2a.errors import RPC_PATH
from fleetwright_a2a.http.envelope import opened, parse

TASK_METHODS: Final = frozenset({"tasks/send", "tasks/sendSubscribe"})
"""The methods of A2A 0.1 that send a message. Their `params` have the id of the task, which the caller chooses."""
MESSAGE_METHODS: Final = TASK_METHODS | frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "message/send",
        "message/sendStream",
        "message/sendSubscribe",
        "message/stream",
    }
)
"""The methods of JSON-RPC that send a message, in all dialects."""
WAKING_METHODS: Final = MESSAGE_METHODS | frozenset(
    {
        "CancelTask",
        "CreateTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfig",
        "GetTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "ListTasks",
        "SubscribeToTask",
        "tasks/cancel",
        "tasks/get",
        "tasks/pushNotification/get",
        "tasks/pushNotification/set",
        "tasks/pushNotificationConfig/delete",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/set",
        "tasks/resubscribe",
    }
)
"""The methods of JSON-RPC that wake an agent, in all dialects."""
CARD_METHODS: Final = frozenset({"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"})
"""The methods of JSON-RPC that read the extended card, in all dialects."""
_PATHS: Final = {
    "POST": re.compile(r"/message:(send|stream)|/tasks/[^/]+(:(cancel|subscribe)|/pushNotificationConfigs)"),
    "GET": re.compile(r"/tasks(/[^/]+(/pushNotificationConfigs(/[^/]+)?)?)?"),
    "DELETE": re.compile(r"/tasks/[^/]+/pushNotificationConfigs/[^/]+"),
}
"""The paths of HTTP+JSON by verb, below one of the prefixes."""
_CARD_PATHS: Final = {"GET": re.compile(r"/(extendedAgentCard|card)")}
_MESSAGE_PATHS: Final = {"POST": re.compile(r"/message:(send|stream)")}
_PREFIX: Final = re.compile(rf"({re.escape(RPC_PATH)})?(/v1)?(?=/)")


def may_wake(verb: str, path: str, body: bytes) -> bool:
    """Return whether a request may wake the agent. Args: `path` is the path at the agent."""
    return _is_one_of(WAKING_METHODS, _PATHS, verb, path, body)


def sends_message(verb: str, path: str, body: bytes) -> bool:
    """Return whether a request begins or continues a task. Args: `path` is the path at the agent."""
    return _is_one_of(MESSAGE_METHODS, _MESSAGE_PATHS, verb, path, body)


def reads_extended_card(verb: str, path: str, body: bytes) -> bool:
    """Return whether a request reads the extended card. Args: `path` is the path at the agent."""
    return _is_one_of(CARD_METHODS, _CARD_PATHS, verb, path, body)


def is_rpc(verb: str, path: str) -> bool:
    """Return whether a request is a call of JSON-RPC. Args: `path` is the path at the agent."""
    return verb == "POST" and unquote(path) in {RPC_PATH, f"{RPC_PATH}/"}


def is_message_path(verb: str, path: str) -> bool:
    """Return whether a request sends a message over HTTP+JSON. Args: `path` is the path at the agent."""
    return _matches(_MESSAGE_PATHS, verb, path)


def _is_one_of(
    methods: frozenset[str], paths: Mapping[str, re.Pattern[str]], verb: str, path: str, body: bytes
) -> bool:
    if is_rpc(verb, path):
        return _is_call(methods, body)
    return _matches(paths, verb, path)


def _matches(paths: Mapping[str, re.Pattern[str]], verb: str, path: str) -> bool:
    decoded = unquote(path)
    prefix = _PREFIX.match(decoded)
    pattern = paths.get("GET" if verb == "HEAD" else verb)
    return prefix is not None and pattern is not None and pattern.fullmatch(decoded, prefix.end()) is not None


def _is_call(methods: frozenset[str], body: bytes) -> bool:
    try:
        return opened(parse(body)).method in methods
    except A2AError:
        return False
