"""Finds the task that a message names, because the agent's delegation is bound to this task.

In A2A 0.1 the id is in `params`, and in later versions it is in the message. The agent makes the final decision: it
refuses a message that names a task other than that of the delegation.
"""

from collections.abc import Mapping
from typing import Any, Final

from a2a.utils.errors import A2AError

from fleetwright_a2a.http.envelope import opened, parse
from fleetwright_gateway.proxy.request_kinds import MESSAGE_METHODS, TASK_METHODS, is_message_path, is_rpc

_MAX_ID: Final = 128
"""The longest id that agents accept."""
_MESSAGE: Final = ("message", "request")
_TASK: Final = ("taskId", "task_id")
"""The names of a field in ProtoJSON: parsers accept the name in JSON and the name in the definition."""


def message_task(verb: str, path: str, body: bytes) -> str | None:
    """Return the id of the task that a message names; empty if it names none. Return None if there is no message.

    Args: `path` is the path at the agent.
    """
    is_call = is_rpc(verb, path)
    if not is_call and not is_message_path(verb, path):
        return None
    try:
        sent = parse(body)
        if not is_call:
            return _named(_first(sent, _MESSAGE), _TASK)
        call = opened(sent)
    except A2AError:
        return None  # The agent answers with the error.
    if call.method in TASK_METHODS:
        return _named(call.params, ("id",))
    return _named(_first(call.params, _MESSAGE[:1]), _TASK) if call.method in MESSAGE_METHODS else None


def _named(holder: Any, names: tuple[str, ...]) -> str:
    """Return an id; empty if there is none, or if the agent will refuse it."""
    found = _first(holder, names)
    return found if isinstance(found, str) and len(found) <= _MAX_ID and found.isprintable() else ""


def _first(holder: Any, names: tuple[str, ...]) -> Any:
    return next((holder[name] for name in names if holder.get(name)), None) if isinstance(holder, Mapping) else None
