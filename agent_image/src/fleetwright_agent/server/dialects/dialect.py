"""What a dialect of A2A is: a table of methods, and how they are read, written and refused in its words.

Inside there is one protocol, that of A2A 1.0; a dialect translates at the door, both ways. Refuses: doing anything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from a2a.types.a2a_pb2 import Task
from a2a.utils.errors import A2AError, InvalidParamsError

from fleetwright_agent.protocol.task_events import Event
from fleetwright_agent.server.proto_validation import check_complete


class Operation(Enum):
    """What the server can do; the value is the request handler's name for it."""

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
"""Parameters to a request of A2A 1.0. Raises: InvalidParamsError."""
Write = Callable[[Any, Any], Any]
"""What an operation answered, and its request, to a result."""
Tell = Callable[[Task | Event], Iterable[Params]]
"""One event of a stream to what is sent of it; remembers what it needs of the events before."""


@dataclass(frozen=True, slots=True)
class Dialect:
    version: str
    methods: Mapping[str, Operation]
    reads: Mapping[Operation, Read]
    writes: Mapping[Operation, Write]
    teller: Callable[[], Tell]
    """For one stream."""
    codes: Mapping[type[A2AError], int]
    """Of errors; what is not here is an internal error."""
    unavailable: int
    """The code for a message that cannot be taken right now."""
    limited: int
    """The code for a caller that has as much at once as it may have."""
    misplaced: Mapping[str, str]
    """Names in the params of a message that would be ignored, so that a conversation went on elsewhere; and advice."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What its clients call what sentences of ours name."""
    details: bool = False
    """Whether errors carry typed details."""
    faults_in_streams: bool = True
    """Whether a stream that cannot begin is a stream of one error; otherwise it is a plain answer."""
    chooses_ids: bool = False
    """Whether callers choose the ids of their tasks."""

    def sentence(self, error: A2AError) -> str:
        """What is told where there are no details: the fields that are missing are named in it."""
        missing = error.data.get("errors", ()) if isinstance(error, InvalidParamsError) and error.data else ()
        fields = ", ".join(str(each["field"]) for each in missing)
        text = f"Invalid params: check {fields}" if fields else error.message
        for ours, theirs in self.words.items():
            text = text.replace(ours, theirs)
        return text


def read(dialect: Dialect, operation: Operation, params: Params) -> Any:
    """The request that the params are, with everything that the protocol requires.

    Raises:
        InvalidParamsError: With a sentence that names the field.
    """
    if operation in SENDS and (strayed := dialect.misplaced.keys() & params.keys()):
        name = min(strayed)
        raise InvalidParamsError(f"{name} {dialect.misplaced[name]}")
    request = dialect.reads[operation](params)
    check_complete(request)
    return request
