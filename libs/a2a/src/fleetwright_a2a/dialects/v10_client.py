"""The client side of A2A 1.0 over JSON-RPC: writes requests, and reads responses, events and errors.

Together with the tables of the older dialects, this translates a call of an older client for an agent that supports
only A2A 1.0. Pure.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    AgentCard,
    ListTaskPushNotificationConfigsResponse,
    ListTasksResponse,
    Message,
    Part,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
)
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.message import Message as Proto

from fleetwright_a2a.dialects.dialect import Operation, Params
from fleetwright_a2a.dialects.protojson import from_json
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.errors import LimitReached, ServiceUnavailable
from fleetwright_a2a.proto_validation import MissingField
from fleetwright_a2a.task_events import Event

METHODS: Final[Mapping[Operation, str]] = {operation: name for name, operation in V10.methods.items()}
_RESULTS: Final[Mapping[Operation, type[Proto]]] = {
    Operation.SEND: SendMessageResponse,
    Operation.GET: Task,
    Operation.LIST: ListTasksResponse,
    Operation.CANCEL: Task,
    Operation.SET_PUSH: TaskPushNotificationConfig,
    Operation.GET_PUSH: TaskPushNotificationConfig,
    Operation.LIST_PUSH: ListTaskPushNotificationConfigsResponse,
    Operation.EXTENDED_CARD: AgentCard,
}
_ERRORS: Final[Mapping[int, type[A2AError]]] = {code: kind for kind, code in JSON_RPC_ERROR_CODE_MAP.items()}
_TEMPORARY: Final[Mapping[int, type[ServiceUnavailable]]] = {429: LimitReached, 503: ServiceUnavailable}
"""The kinds of errors by the HTTP status of the response."""
MAX_VALUES: Final = 100_000
"""The largest number of values in one response. Reading as many takes about a second of processor time, and 30 MiB."""
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_MOST_SECONDS: Final = 86_400
_MOST_CHARACTERS: Final = 4096
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_UNREADABLE: Final = "The agent did not answer in the format of A2A 1.0"


def encode_request(operation: Operation, request: Proto, *, request_id: str) -> bytes:
    """Return the JSON-RPC body of a request."""
    params = MessageToDict(request)
    call = {"jsonrpc": "2.0", "id": request_id, "method": METHODS[operation], "params": params}
    return json.dumps(call, ensure_ascii=False).encode()


def decode_response(operation: Operation, body: bytes, *, status: int = 200, retry_after: str = "") -> Any:
    """Return the result of a response; None if the operation has no result.

    Args:
        operation: The operation of the request.
        body: The body of the response.
        status: The HTTP status. 429 and 503 mean that the request may be repeated later.
        retry_after: The header `Retry-After`.

    Raises:
        A2AError: The response is an error, or it is not a response of A2A 1.0.
    """
    result = _result(body, status, retry_after)
    kind = _RESULTS.get(operation)
    if kind is None:
        return None
    answer = _parsed(result, kind)
    return _checked(_payload(answer) if operation is Operation.SEND else answer)


def decode_event(data: bytes) -> Task | Event:
    """Return the event in the data of one server-sent event. Raises: A2AError, as `decode_response` does."""
    event: Task | Event = _checked(_payload(_parsed(_result(data, 200, ""), StreamResponse)))
    return event


def _result(body: bytes, status: int, retry_after: str) -> Any:
    try:
        text = body.decode()  # The parser would also accept UTF-16, in which the values are not counted.
        _check_number_of_values(body)
        document = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if b"\\ud" in body.lower():
            # JSON may contain halves of surrogate pairs, which UTF-8 and protobuf cannot represent.
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    if status in _TEMPORARY:
        raise _temporary(_TEMPORARY[status], error, retry_after)
    if isinstance(error, dict):
        raise _error(error)
    if not isinstance(document, dict) or "result" not in document:
        raise InvalidAgentResponseError(f"{_UNREADABLE}; its response has the HTTP status {status}")
    return document["result"]


def _check_number_of_values(body: bytes) -> None:
    """Check the number of values before they are parsed. Raises: InvalidAgentResponseError."""
    # Most bodies have few of these characters, even with their texts. The texts are removed only from other bodies.
    if _structure(body) > MAX_VALUES and _structure(_STRING.sub(b"", body)) > MAX_VALUES:
        raise InvalidAgentResponseError(f"The response of the agent has more than {MAX_VALUES} values")


def _structure(body: bytes) -> int:
    return sum(map(body.count, (b",", b":", b"[", b"{")))


def _finite(text: str) -> float:
    """Return the number. JSON responses cannot represent infinity and NaN. Raises: ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _parsed(result: Any, kind: type[Proto]) -> Any:
    if not isinstance(result, dict):
        raise InvalidAgentResponseError(_UNREADABLE)
    try:
        return from_json(result, kind)
    except (ParseError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidAgentResponseError(_UNREADABLE) from None


def _payload(response: Any) -> Any:
    chosen = response.WhichOneof("payload")
    if chosen is None:
        raise InvalidAgentResponseError(_UNREADABLE)
    return getattr(response, chosen)


def _checked(answer: Any) -> Any:
    """Return the answer if every part has content that the older versions have too."""
    if any(part.WhichOneof("content") is None for part in _parts(answer)):
        raise InvalidAgentResponseError(f"{_UNREADABLE}: a part has no content")
    return answer


def _parts(answer: Any) -> Iterator[Part]:
    match answer:
        case Task():
            for said in (answer.status.message, *answer.history):
                yield from said.parts
            for artifact in answer.artifacts:
                yield from artifact.parts
        case TaskStatusUpdateEvent():
            yield from answer.status.message.parts
        case TaskArtifactUpdateEvent():
            yield from answer.artifact.parts
        case Message():
            yield from answer.parts


def _temporary(kind: type[ServiceUnavailable], error: Any, retry_after: str) -> ServiceUnavailable:
    found = kind(_text(error) or "The agent cannot accept the request right now; try again.")
    if retry_after.isascii() and retry_after.isdigit():
        found.retry_seconds = min(int(retry_after[:9]), _MOST_SECONDS)
    return found


def _error(error: Params) -> A2AError:
    code = error.get("code")
    kind = _ERRORS.get(code, InternalError) if type(code) is int else InternalError
    if kind is InvalidParamsError and (missing := _missing(error.get("data"))):
        return InvalidParamsError(_text(error), data={"errors": missing})
    return kind(_text(error))


def _text(error: Any) -> str | None:
    text = error.get("message") if isinstance(error, dict) else None
    return text[:_MOST_CHARACTERS] if isinstance(text, str) and text else None


def _missing(details: Any) -> list[MissingField]:
    """Return the fields that the typed details of an error name."""
    found = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return [
        MissingField(field=str(violation.get("field", "")), message=str(violation.get("description", "")))
        for detail in found
        if detail.get("@type") == _BAD_REQUEST and isinstance(detail.get("fieldViolations"), list)
        for violation in detail["fieldViolations"]
        if isinstance(violation, dict)
    ]
