"""Checks of messages against the proto definition: required fields, and the presence of free-form JSON.

Pure; lookups in the definition are cached. Free-form JSON itself is not inspected, because it has no required fields
and may be large.
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


class MissingField(TypedDict):
    """A missing field, in the format of A2A errors."""

    field: str
    message: str


def check_complete(message: Proto) -> None:
    """Check that all required fields are set. Raises: InvalidParamsError, with every missing field."""
    if errors := list(_missing(message, "")):
        raise InvalidParamsError("Validation failed", data={"errors": errors})


def holds_json(message: Proto) -> bool:
    """Return whether the message contains free-form JSON anywhere."""
    for name, repeated, is_free in _inner(message.DESCRIPTOR):
        values = getattr(message, name) if repeated else (getattr(message, name),) if message.HasField(name) else ()
        if values and (is_free or any(map(holds_json, values))):
            return True
    return False


@cache
def _inner(kind: Descriptor) -> tuple[tuple[str, bool, bool], ...]:
    """Return the fields that are messages: name, whether the field is repeated, and whether it is free-form JSON."""
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
    """True if an unset field can be distinguished from one with the default value."""
    inner: bool
    """True if the field is a message with fields to check."""


@cache
def _fields(kind: Descriptor) -> tuple[_Field, ...]:
    """Return the fields to check: those that are required or contain messages."""
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


def _missing(message: Proto, prefix: str) -> Iterator[MissingField]:
    for field in _fields(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.required and not (message.HasField(field.name) if field.present else value):
            yield {"field": f"{prefix}{field.name}", "message": _EMPTY if field.repeated else _ABSENT}
        elif field.inner and field.repeated:
            for place, item in enumerate(value):
                yield from _missing(item, f"{prefix}{field.name}[{place}].")
        elif field.inner and message.HasField(field.name):
            yield from _missing(value, f"{prefix}{field.name}.")
