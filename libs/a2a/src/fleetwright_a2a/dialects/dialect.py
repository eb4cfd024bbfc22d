"""The definition of an A2A dialect: a table of methods, with functions that convert requests, results and errors.

The server itself uses A2A 1.0 only. A dialect converts requests to A2A 1.0 and responses from A2A 1.0. This module
performs no operations.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from a2a.types.a2a_pb2 import Task
from a2a.utils.errors import A2AError, InvalidParamsError

from fleetwright_a2a.lazy_import import import_in_thread
from fleetwright_a2a.proto_validation import check_complete
from fleetwright_a2a.task_events import Event


class Operation(Enum):
    """The operations of the server; each value is the name of the request handler's method."""

    SEND = "on_message_send"
    STREAM = "on_message_send_stream"
    GET = "on_get_task"
    LIST = "on_list_tasks"
    CANCEL = "on_cancel_task"
    SUBSCRIBE = "on_subscribe_to_task"
    SET_PUSH = "on_create_task_push_notification_config"
    GET_PUSH = "on_get_task_push_notification_config"
    LIST_PUSH = "on_list_task_push_notification_configs"
    DELETE_PUSH = "on_delete_task_push_notification_config"
    EXTENDED_CARD = "on_get_extended_agent_card"


SENDS: Final = frozenset({Operation.SEND, Operation.STREAM})
STREAMS: Final = frozenset({Operation.STREAM, Operation.SUBSCRIBE})

Params = dict[str, Any]
Read = Callable[[Params], Any]
"""Converts parameters to a request of A2A 1.0. Raises: InvalidParamsError."""
Write = Callable[[Any, Any], Any]
"""Converts the response of an operation and its request to a result of the dialect."""
Tell = Callable[[Task | Event], Iterable[Params]]
"""Converts one event of a stream to the documents to send; may keep state from earlier events."""


@dataclass(frozen=True, slots=True)
class Dialect:
    version: str
    methods: Mapping[str, Operation]
    reads: Mapping[Operation, Read]
    writes: Mapping[Operation, Write]
    teller: Callable[[], Tell]
    """Creates the converter for one stream."""
    codes: Mapping[type[A2AError], int]
    """The error codes; an error that is not listed has the code of an internal error."""
    unavailable: int
    """The error code for a message that cannot be accepted right now."""
    limited: int
    """The error code for a caller that has reached a limit."""
    misplaced: Mapping[str, str]
    """Misplaced names in the params of a message, with advice. Ignoring them would begin a new conversation."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Maps A2A 1.0 names in error texts to the names of this dialect."""
    details: bool = False
    """True if errors have typed details."""
    faults_in_streams: bool = True
    """Over JSON-RPC, true if the error of a stream that cannot begin is sent as a stream, not as a plain response."""
    chooses_ids: bool = False
    """True if callers choose the ids of their tasks."""
    tasks_only: bool = False
    """True if every answer to a message is a task."""
    ends_with_final: bool = False
    """True if a stream ends after a document with `final: true`."""
    conversions: str = ""
    """The module with the conversions, if it is imported with the first call."""

    def sentence(self, error: A2AError) -> str:
        """Return the text of an error, with the names of missing fields, for dialects without error details."""
        missing = error.data.get("errors", ()) if isinstance(error, InvalidParamsError) and error.data else ()
        fields = ", ".join(str(each["field"]) for each in missing)
        text = f"Invalid params: check {fields}" if fields else error.message
        for ours, theirs in self.words.items():
            text = text.replace(ours, theirs)
        return text


async def load(dialect: Dialect) -> None:
    """Import the conversions of the dialect, if they are imported with the first call."""
    if dialect.conversions:
        await import_in_thread(dialect.conversions)


def read(dialect: Dialect, operation: Operation, params: Params) -> Any:
    """Return the A2A 1.0 request for the params, and check that all required fields are set.

    Raises:
        InvalidParamsError: A field is missing, misplaced or invalid; the text names it.
    """
    if operation in SENDS and (strayed := dialect.misplaced.keys() & params.keys()):
        name = min(strayed)
        raise InvalidParamsError(f"{name} {dialect.misplaced[name]}")
    request = dialect.reads[operation](params)
    check_complete(request)
    return request
