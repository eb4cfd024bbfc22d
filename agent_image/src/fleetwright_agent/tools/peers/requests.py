"""The messages to other agents.

A message that begins a task in the background has an id of its call. A repeated call sends an equal message, and an A2A
agent answers it with the task that it has already begun.
"""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest

from fleetwright_a2a.extensions import CALL_PATH, TRACE, labels_of, trace_of
from fleetwright_agent.storage.open_questions import QuestionKey
from fleetwright_agent.telemetry.tracing import current_trace
from fleetwright_agent.tools.port import ToolCall

_log = logging.getLogger(__name__)


def context_id_at_peer(place: QuestionKey) -> str:
    # For the peer, all conversations belong to this agent. Derive the id from the caller, so that no two callers share
    # a conversation.
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{place.owner}\n{place.context_id}\n{place.peer}"))


def message_request(
    place: QuestionKey, call: ToolCall, path: tuple[str, ...], ask: Mapping[str, Any]
) -> SendMessageRequest:
    """Return a request whose answer the call waits for. Args: `ask` names the question that it answers."""
    trace = _trace(call)
    return _request(place, call, path, str(uuid.uuid4()), {**({TRACE: trace} if trace else {}), **ask})


def task_request(place: QuestionKey, call: ToolCall, path: tuple[str, ...]) -> SendMessageRequest:
    """Return a request that begins a task in the background. It is equal for equal calls, so it has no trace."""
    name = (place.owner, place.context_id, place.peer, call.turn.task_id, call.key, call.arguments["message"])
    request = _request(place, call, path, str(uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(name))), {})
    request.configuration.return_immediately = True
    return request


def trace_headers(call: ToolCall) -> dict[str, str]:
    """Return the header with the trace of a request whose message has none."""
    trace = _trace(call)
    return {"traceparent": f"00-{trace['traceId']}-{trace['spanId']}-01"} if len(trace) > 1 else {}


def log_begun(place: QuestionKey, call: ToolCall, task_id: str) -> None:
    """Log which task of a peer belongs to the task of the call, so that the logs of both can be shown together."""
    _log.info("peer task started", extra={"task": call.turn.task_id, "peer": place.peer, "peerTask": task_id})


def _trace(call: ToolCall) -> dict[str, str]:
    return dict(current_trace()) or trace_of(call.turn.metadata)


def _request(
    place: QuestionKey, call: ToolCall, path: tuple[str, ...], message_id: str, more: Mapping[str, Any]
) -> SendMessageRequest:
    message = Message(
        message_id=message_id,
        task_id=call.arguments.get("task_id", ""),
        context_id=context_id_at_peer(place),
        role=Role.ROLE_USER,
        parts=[Part(text=call.arguments["message"])],
    )
    message.metadata.update({CALL_PATH: list(path), **labels_of(call.turn.metadata), **more})
    message.extensions.append(CALL_PATH)
    return SendMessageRequest(
        message=message, configuration=SendMessageConfiguration(accepted_output_modes=["text/plain"])
    )
