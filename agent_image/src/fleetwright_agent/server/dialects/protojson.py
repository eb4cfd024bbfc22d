"""JSON to messages of the protocol, as `json_format` reads it, for what nearly all of them consist of.

What a kind of message consists of is looked up once, and not at every message: that was most of the time of a reading,
and a thirtieth of the time of a short task. Refuses: rules of its own. What is rare or wrong is the library's from its
beginning, so that results and errors are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message as Proto

P = TypeVar("P", bound=Proto)
_TYPES: Final[Mapping[int, type]] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_ENUM: str,
    FieldDescriptor.TYPE_MESSAGE: dict,
}


class _Rare(Exception):  # noqa: N818 - no error: the library does it then
    """Something that is not looked at here."""


def from_json(params: dict[str, Any], model: type[P]) -> P:
    """The same as `ParseDict` that ignores unknown fields.

    Raises: What that raises.
    """
    try:
        return model(**_values(params, model.DESCRIPTOR))
    except (_Rare, TypeError, ValueError):
        return ParseDict(params, model(), ignore_unknown_fields=True)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: Any
    inner: Descriptor | None
    enum: Mapping[str, int]
    repeated: bool
    choice: str
    """What it is one of; only one may be given."""


@cache
def _fields(kind: Descriptor) -> Mapping[str, _Field]:
    """By their names in JSON, those that are looked at here."""
    return {field.json_name: _field(field) for field in kind.fields if _is_common(field)}


def _is_common(field: FieldDescriptor) -> bool:
    """Kinds of the library's own are no objects of their fields, and maps no lists of theirs."""
    kind = field.message_type
    special = kind is not None and (kind.full_name.startswith("google.protobuf.") or kind.GetOptions().map_entry)
    return field.type in _TYPES and not special


def _field(field: FieldDescriptor) -> _Field:
    enum, choice = field.enum_type, field.containing_oneof
    return _Field(
        name=field.name,
        type=_TYPES[field.type],
        inner=field.message_type,
        enum={value.name: value.number for value in enum.values} if enum else {},
        repeated=field.is_repeated,
        choice=choice.name if choice else "",
    )


def _values(given: dict[str, Any], kind: Any) -> dict[str, Any]:
    """As the message's constructor takes them, by the names of the definition. Raises: _Rare."""
    fields, values, chosen = _fields(kind), {}, set()
    for name, value in given.items():
        field = fields.get(name)
        if field is None or field.choice in chosen:
            raise _Rare
        if field.choice:
            chosen.add(field.choice)
        if not field.repeated:
            values[field.name] = _value(value, field)
        elif type(value) is list:
            values[field.name] = [_value(item, field) for item in value]
        else:
            raise _Rare
    return values


def _value(given: Any, field: _Field) -> Any:
    if type(given) is not field.type:  # A truth is no number, though Python has it so.
        raise _Rare
    if field.inner is not None:
        return _values(given, field.inner)
    if not field.enum:
        return given
    if given not in field.enum:
        raise _Rare
    return field.enum[given]
