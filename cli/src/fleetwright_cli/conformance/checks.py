"""The checks of an A2A 1.0 server. Each returns what is wrong, or an empty string.

The section numbers are those of the A2A specification, version 1.0, and of JSON-RPC 2.0.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from fleetwright_cli.conformance.connection import ProbedServer

_ENDED: Final = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})
_REQUIRED_FIELDS: Final = (
    "name",
    "description",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
    "supportedInterfaces",
)
_LINK_LOCAL: Final = "http://169.254.169.254/latest/meta-data"
_UNKNOWN_TASK: Final = "00000000-0000-4000-8000-000000000000"


@dataclass(slots=True)
class ProbeState:
    """The findings of earlier checks."""

    server: ProbedServer
    text: str = "Good morning"
    card: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    """The id of an ended task."""

    def capability(self, name: str) -> bool:
        capabilities = self.card.get("capabilities")
        return isinstance(capabilities, Mapping) and capabilities.get(name) is True


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    name: str
    section: str
    run: Callable[[ProbeState], Awaitable[str]]
    is_required: bool = True
    capability: str = ""
    """The check is skipped unless the card declares this capability."""


async def _serves_a_card(state: ProbeState) -> str:
    status, card = await state.server.card()
    if status != 200 or not isinstance(card, dict):
        return f"HTTP {status}, and no JSON object at /.well-known/agent-card.json"
    state.card = card
    if missing := [name for name in _REQUIRED_FIELDS if name not in card]:
        return f"the card has no {', '.join(missing)}"
    spoken = [
        each
        for each in card["supportedInterfaces"]
        if isinstance(each, dict) and each.get("protocolBinding") == "JSONRPC"
    ]
    if not spoken:
        return "the card has no interface with the binding JSONRPC"
    state.server.endpoint = endpoint_of(state.server.url, str(spoken[0].get("url", "")))
    return ""


def endpoint_of(base: str, advertised: str) -> str:
    """Return where the interface of a card is reached from here.

    The host of the card may not be reachable from here, as behind a port-forward, so only its path counts. The path
    begins with the end of that of `base`: with the whole of it, or with what follows the path of a proxy, such as that
    of `kubectl proxy`. A proxy may also remove its path, and then they have nothing in common.
    """
    path, segments = urlsplit(advertised).path, urlsplit(base).path.rstrip("/").split("/")[1:]
    ends = ("/" + "/".join(segments[first:]) for first in range(len(segments)))
    common = next((end for end in ends if path == end or path.startswith(f"{end}/")), "")
    return base.rstrip("/").removesuffix(common) + (path if path.startswith("/") else "")


async def _refuses_callers_without_a_token(state: ProbeState) -> str:
    if not state.card.get("securityRequirements") and not state.card.get("securitySchemes"):
        return "the card declares no security; every caller is accepted"
    reply = await state.server.call("ListTasks", {}, with_token=False)
    return "" if reply.status == 401 else f"HTTP {reply.status} without a token, expected 401"


async def _completes_a_message(state: ProbeState) -> str:
    reply = await state.server.call("SendMessage", {"message": _message(state.text)})
    task, message = reply.result.get("task"), reply.result.get("message")
    if isinstance(message, Mapping):
        return ""
    if not isinstance(task, Mapping):
        return f"HTTP {reply.status}, error {reply.code}: neither a task nor a message"
    state.task = str(task.get("id", ""))
    status = task.get("status")
    word = status.get("state") if isinstance(status, Mapping) else None
    return "" if word in _ENDED | {"TASK_STATE_INPUT_REQUIRED"} else f"the task is in state {word} after the answer"


async def _returns_its_task(state: ProbeState) -> str:
    if not state.task:
        return ""
    reply = await state.server.call("GetTask", {"id": state.task})
    return "" if reply.result.get("id") == state.task else f"error {reply.code} for a task that exists"


async def _lists_its_tasks(state: ProbeState) -> str:
    reply = await state.server.call("ListTasks", {"pageSize": 10})
    tasks = reply.result.get("tasks")
    if not isinstance(tasks, list):
        return f"error {reply.code}, and no list of tasks"
    known = {task.get("id") for task in tasks if isinstance(task, dict)}
    return "" if not state.task or state.task in known else "the newest task is not listed"


async def _streams_to_the_end(state: ProbeState) -> str:
    events = await state.server.stream("SendStreamingMessage", {"message": _message(state.text)})
    states = [_state(event) for event in events]
    if not events:
        return "the stream has no events"
    ended = any(word in _ENDED for word in states) or any("message" in event for event in events)
    return "" if ended else "the stream ended before its task"


async def _refuses_to_cancel_an_ended_task(state: ProbeState) -> str:
    if not state.task:
        return ""
    reply = await state.server.call("CancelTask", {"id": state.task})
    return "" if reply.code == -32002 else f"error {reply.code}, expected -32002 (TaskNotCancelableError)"


async def _knows_no_unknown_task(state: ProbeState) -> str:
    reply = await state.server.call("GetTask", {"id": _UNKNOWN_TASK})
    return "" if reply.code == -32001 else f"error {reply.code}, expected -32001 (TaskNotFoundError)"


async def _knows_no_unknown_method(state: ProbeState) -> str:
    reply = await state.server.call("NoSuchMethod", {})
    return "" if reply.code == -32601 else f"error {reply.code}, expected -32601 (method not found)"


async def _refuses_invalid_parameters(state: ProbeState) -> str:
    reply = await state.server.call("SendMessage", {"message": {"parts": "text"}})
    return "" if reply.code == -32602 else f"error {reply.code}, expected -32602 (invalid parameters)"


async def _refuses_invalid_json(state: ProbeState) -> str:
    reply = await state.server.post('{"jsonrpc": "2.0", "method": ')
    return "" if reply.code == -32700 else f"error {reply.code}, expected -32700 (parse error)"


async def _refuses_a_link_local_callback(state: ProbeState) -> str:
    """A server that calls such an address would read the metadata of its own machine (SSRF)."""
    if not state.task:
        return ""
    params = {"taskId": state.task, "url": _LINK_LOCAL}
    reply = await state.server.call("CreateTaskPushNotificationConfig", params)
    return "" if reply.code is not None else f"a callback to {urlsplit(_LINK_LOCAL).hostname} was accepted"


CHECKS: Final = (
    ConformanceCheck("serves an agent card", "§4.4.1", _serves_a_card),
    ConformanceCheck("refuses callers without a token", "§7", _refuses_callers_without_a_token, is_required=False),
    ConformanceCheck("answers a message", "§3.1.1", _completes_a_message),
    ConformanceCheck("returns the task", "§3.1.3", _returns_its_task),
    ConformanceCheck("lists tasks", "§3.1.4", _lists_its_tasks),
    ConformanceCheck("streams until the task ends", "§3.1.2", _streams_to_the_end, capability="streaming"),
    ConformanceCheck("refuses to cancel an ended task", "§3.1.5", _refuses_to_cancel_an_ended_task),
    ConformanceCheck("reports an unknown task", "§5.4", _knows_no_unknown_task),
    ConformanceCheck("reports an unknown method", "JSON-RPC §5.1", _knows_no_unknown_method),
    ConformanceCheck("reports invalid parameters", "JSON-RPC §5.1", _refuses_invalid_parameters),
    ConformanceCheck("reports invalid JSON", "JSON-RPC §5.1", _refuses_invalid_json),
    ConformanceCheck(
        "refuses a link-local callback", "§13.2", _refuses_a_link_local_callback, capability="pushNotifications"
    ),
)


def _message(text: str) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}


def _state(event: Mapping[str, Any]) -> str:
    holder = event.get("statusUpdate") or event.get("task") or {}
    status = holder.get("status") if isinstance(holder, Mapping) else {}
    return str(status.get("state", "")) if isinstance(status, Mapping) else ""
