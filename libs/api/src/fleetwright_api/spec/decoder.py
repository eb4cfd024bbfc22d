"""Decodes JSON values into views, driven by the type hints of the views.

The decoder is lenient. An error in one field becomes a `Violation` with the field's path, and all other fields keep
their values. Unknown fields are ignored, because the API server prunes them. Null means that a field is unset.

No library is used: msgspec and cattrs stop at the first error or return no value at all, and pydantic collects the
errors but returns no partial value. A partial value is needed, because other objects may refer to an object with an
invalid spec.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from sys import intern
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fleetwright_api.spec.fields import crd_fields, crd_name, has_default, words_of
from fleetwright_api.violation import Violation

MALFORMED: Final = "Malformed"
"""The reason of violations for missing fields and for values of a wrong type."""
UNKNOWN_WORD: Final = "UnknownWord"

ViewT = TypeVar("ViewT")
_Problems = list[Violation]
_Decode = Callable[[Any, str, _Problems], Any]
_WRONG: Final = object()
"""The result of decoding a value of a wrong type. The field then gets its default."""
_LONGEST: Final = 80
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The decoders of a view's fields and the empty values of its required fields, both by the name in the CRD."""

    decoders: Mapping[str, tuple[str, _Decode]]
    required: Mapping[str, tuple[str, Any]]


def decode(view: type[ViewT], value: object, path: str, problems: _Problems) -> ViewT:
    """Return the view of a JSON value, and append a violation to `problems` for each error.

    A value that is not an object gives an empty view. An invalid `allowedCallers` therefore allows no caller.
    """
    plan = _plan(cast("Any", view))
    if not isinstance(value, dict):
        _wrong("an object", value, path, problems)
        return view(**dict(plan.required.values()))
    found: dict[str, Any] = {}
    for key, below in value.items():
        if below is not None and (step := plan.decoders.get(key)) is not None:
            attribute, decoder = step
            decoded = decoder(below, f"{path}.{key}", problems)
            if decoded is not _WRONG:
                found[attribute] = decoded
    for name, (attribute, empty) in plan.required.items():
        if attribute not in found:
            found[attribute] = empty
            if value.get(name) is None:
                problems.append(Violation(MALFORMED, f"{path}.{name} is missing; set it"))
    return view(**found)


@cache
def _plan(view: Any) -> _Plan:
    hints = get_type_hints(view)
    known = {crd_name(each): each for each in crd_fields(view)}
    return _Plan(
        {name: (each.name, _decoder(hints[each.name], words_of(each))) for name, each in known.items()},
        {name: (each.name, _empty(hints[each.name])) for name, each in known.items() if not has_default(each)},
    )


def _empty(hint: Any) -> Any:
    """Return the empty value that a required field gets if it is missing."""
    if is_dataclass(hint):
        return cast("type", hint)(**dict(_plan(cast("Any", hint)).required.values()))
    origin = get_origin(hint) or hint
    return {} if origin is Mapping else origin()


def _decoder(hint: Any, words: tuple[str, ...]) -> _Decode:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = tuple(each for each in arguments if each is not NoneType)
        return _decoder(kinds[0], words) if len(kinds) == 1 else partial(_scalar, kinds)
    if origin is tuple and is_dataclass(arguments[0]):
        return partial(_views, cast("type", arguments[0]))
    if origin is tuple:
        return partial(_items, _decoder(arguments[0], words), bool(words))
    if origin is Mapping:
        return _texts if arguments[1] is str else _free
    if is_dataclass(hint):
        return partial(decode, cast("type", hint))
    return partial(_word, words) if words else _text if hint is str else partial(_scalar, (hint,))


def _text(value: Any, path: str, problems: _Problems) -> Any:
    # Intern the string, because thousands of specs contain the same strings.
    return intern(value) if type(value) is str else _wrong("a string", value, path, problems)


def _word(words: tuple[str, ...], value: Any, path: str, problems: _Problems) -> Any:
    if value not in words and type(value) is str:
        problems.append(Violation(UNKNOWN_WORD, f"{path} has {value[:_LONGEST]!r}; use one of {', '.join(words)}"))
    return _text(value, path, problems)


def _scalar(kinds: tuple[type, ...], value: Any, path: str, problems: _Problems) -> Any:
    if type(value) is float and value.is_integer() and int in kinds:
        return int(value)  # JSON does not distinguish 1 from 1.0.
    # Compare types exactly, because isinstance treats True as an int.
    return value if type(value) in kinds else _wrong(" or ".join(_KINDS[kind] for kind in kinds), value, path, problems)


def _items(decoder: _Decode, are_words: bool, value: Any, path: str, problems: _Problems) -> Any:
    if not isinstance(value, list):
        return _wrong("a list", value, path, problems)
    # The message about an unknown word contains the word, so its path needs no index.
    places = (path if are_words else f"{path}[{index}]" for index in range(len(value)))
    decoded = [decoder(item, place, problems) for item, place in zip(value, places, strict=True)]
    return tuple(item for item in decoded if item is not _WRONG)


def _views(view: type, value: Any, path: str, problems: _Problems) -> Any:
    """Decode a list of objects. Items that are not objects are reported and left out."""
    if not isinstance(value, list):
        return _wrong("a list", value, path, problems)
    decoded: list[Any] = []
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if isinstance(item, dict):
            decoded.append(decode(view, item, place, problems))
        else:
            _wrong("an object", item, place, problems)
    return tuple(decoded)


def _texts(value: Any, path: str, problems: _Problems) -> Any:
    """Decode an object whose values are all strings, such as labels."""
    if not isinstance(value, dict):
        return _wrong("an object", value, path, problems)
    decoded = {str(key): _text(text, f"{path}[{str(key)[:_LONGEST]!r}]", problems) for key, text in value.items()}
    return {intern(key): text for key, text in decoded.items() if text is not _WRONG}


def _free(value: Any, path: str, problems: _Problems) -> Any:
    """Decode an object whose fields the CRD does not define. It stays a mapping."""
    return shared(value) if isinstance(value, dict) else _wrong("an object", value, path, problems)


def shared(value: Any) -> Any:
    """Return an equal JSON value with interned strings, because thousands of objects contain the same strings."""
    if type(value) is str:
        return intern(value)
    if isinstance(value, dict):
        return {shared(key): shared(below) for key, below in value.items()}
    return [shared(below) for below in value] if isinstance(value, list) else value


def _wrong(wanted: str, value: object, path: str, problems: _Problems) -> object:
    if value is None:
        problems.append(Violation(MALFORMED, f"{path} is missing; set it to {wanted}"))
    else:
        found = _KINDS.get(type(value), type(value).__name__)
        problems.append(Violation(MALFORMED, f"{path} must be {wanted} and is {found}; correct it"))
    return _WRONG
