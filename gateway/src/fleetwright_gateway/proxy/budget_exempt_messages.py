"""Recognises messages that an agent may accept although its budget is exhausted. Pure.

Such a message calls no model, names another model, or continues a task: the answer to an approval request lets an
approved tool run. The budget of the agent decides about them, so they reach the agent.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from a2a.utils.errors import A2AError

from fleetwright_a2a.extension_codec import mime_type
from fleetwright_a2a.extensions import CONTEXT_TITLE, MODEL, WORKSPACE_UNDO
from fleetwright_a2a.http.envelope import parse
from fleetwright_gateway.proxy.request_kinds import is_rpc

_WITHOUT_MODEL: Final = (CONTEXT_TITLE, WORKSPACE_UNDO)
_KEYS: Final = {*_WITHOUT_MODEL, MODEL}
_TYPES: Final = {*_WITHOUT_MODEL, *map(mime_type, _WITHOUT_MODEL)}
"""The types of data parts, which clients of older A2A versions send instead of metadata."""


def is_budget_exempt(path: str, body: bytes) -> bool:
    """Return whether the agent may accept this message. Args: `path` is the path at the agent."""
    try:
        sent = _object(parse(body))
    except A2AError:
        return False
    params = _object(sent.get("params")) if is_rpc("POST", path) else sent
    message = _object(params.get("message"))
    # A2A 0.1 has the id of the task in `params`, and a new task has one too.
    if message.get("taskId") or message.get("task_id") or params.get("id"):
        return True
    named = {*_object(params.get("metadata")), *_object(message.get("metadata"))}
    return not named.isdisjoint(_KEYS) or not _TYPES.isdisjoint(_types(message.get("parts")))


def _types(parts: Any) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        stated = _object(_object(part).get("metadata")).get("mimeType")
        if isinstance(stated, str):
            yield stated


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
