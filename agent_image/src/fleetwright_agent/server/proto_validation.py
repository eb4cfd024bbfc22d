"""What the protocol's definition says of a message's shape: what must be in it, and where JSON of any kind may lie.

Pure; what is looked up in the definition is looked up once. Refuses: looking into free JSON, of which nothing is
required and which may be of any size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypedDict

from a2a.utils.errors import InvalidParamsError
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

_FREE: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_ABSENT: Final = "Field is required."
_BEHAVIOUR: Final[Any] = descriptor_pool.Default().FindExtensionByName("google.api.field_behavior")
_REQUIRED: Final[int] = _BEHAVIOUR.enum_type.values_by_name["REQUIRED"].number
_EMPTY: Final = "Field must contain at least one element."


class Missing(TypedDict):
    """As errors of the protocol tell it."""

    field: str
    message: str


def check_complete(message: Proto) -> None:
    """Raises: InvalidParamsError, with every required field that is not there."""
    if errors := list(_missing(message, "")):
        raise InvalidParamsError("Validation failed", data={"errors": errors})


def holds_json(message: Proto) -> bool:
    """Whether there is free JSON anywhere in it."""
    for name, repeated, is_free in _inner(message.DESCRIPTOR):
        values = getattr(message, name) if repeated else (getattr(message, name),) if message.HasField(name) else ()
        if values and (is_free or any(map(holds_json, values))):
            return True
    return False


@cache
def _inner(kind: Descriptor) -> tuple[tuple[str, bool, bool], ...]:
    """The fields that are messages: their names, whether there are many, and whether they are free JSON."""
    return tuple(
        (field.name, field.is_repeated, field.message_type.full_name in _FREE)
        for field in kind.fields
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
    )


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    required: bool
    repeated: bool
    present: bool
    """Whether it can be told from one that has its default value."""
    inner: bool
    """Whether there are fields in it to look at."""


@cache
def _fields(kind: Descriptor) -> tuple[_Field, ...]:
    """Those that matter here."""
    found = [_field(field) for field in kind.fields]
    return tuple(field for field in found if field.required or field.inner)


def _field(field: FieldDescriptor) -> _Field:
    kind = field.message_type
    return _Field(
        name=field.name,
        required=_REQUIRED in field.GetOptions().Extensions[_BEHAVIOUR],
        repeated=field.is_repeated,
        present=field.has_presence,
        inner=kind is not None and not kind.full_name.startswith("google.protobuf."),
    )


def _missing(message: Proto, prefix: str) -> Iterator[Missing]:
    for field in _fields(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.required and not (message.HasField(field.name) if field.present else value):
            yield {"field": f"{prefix}{field.name}", "message": _EMPTY if field.repeated else _ABSENT}
        elif field.inner and field.repeated:
            for place, item in enumerate(value):
                yield from _missing(item, f"{prefix}{field.name}[{place}].")
        elif field.inner and message.HasField(field.name):
            yield from _missing(value, f"{prefix}{field.name}.")
