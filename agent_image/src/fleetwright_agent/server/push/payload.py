"""The body of a push notification in each A2A version. Pure. Modules of old versions are imported when needed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import StreamResponse, Task
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.bindings.calls import DIALECT
from fleetwright_a2a.lazy_import import import_in_thread

NATIVE: Final = "1.0"


def dialect_of(context: ServerCallContext) -> str:
    return str(context.state.get(DIALECT, NATIVE))


def payload(dialect: str, task: Task) -> dict[str, Any]:
    """Return the whole task in the form that a receiver of the dialect expects."""
    return _PAYLOADS[dialect](task)


async def load(dialect: str) -> None:
    """Import what `payload` needs for the dialect."""
    if dialect == "0.3":
        await import_in_thread("a2a.compat.v0_3.conversions")


def _native(task: Task) -> dict[str, Any]:
    return MessageToDict(StreamResponse(task=task))


def _of_0_3(task: Task) -> dict[str, Any]:
    from a2a.compat.v0_3.conversions import to_compat_task

    return to_compat_task(task).model_dump(mode="json", by_alias=True, exclude_none=True)


def _of_0_1(task: Task) -> dict[str, Any]:
    from fleetwright_a2a.dialects.v01 import pushed

    return pushed(task)


_PAYLOADS: Final[Mapping[str, Callable[[Task], dict[str, Any]]]] = {
    NATIVE: _native,
    "0.3": _of_0_3,
    "0.1": _of_0_1,
}
