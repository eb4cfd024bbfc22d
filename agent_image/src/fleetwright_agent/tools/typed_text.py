"""Values that a person has typed as text, restored to the types of a JSON Schema. Pure.

Only texts change, and only if the schema does not allow a text. A text that cannot be restored stays unchanged,
and the validation of the arguments then reports it.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_WORDS: Final = {"true": True, "false": False, "null": None, "none": None}


def typed_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool with restored types. Args: `schema` is the schema of the tool's parameters."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {name: typed_value(value, known.get(name)) for name, value in arguments.items()}


def allows_text(schema: Any) -> bool:
    allowed = frozenset(_types(schema))
    return not allowed or "string" in allowed


def typed_value(value: Any, schema: Any) -> Any:
    if not isinstance(value, str) or allows_text(schema):
        return value
    allowed = frozenset(_types(schema))
    found = _parsed(value.strip())
    for name in allowed:
        if isinstance(found, _TYPES.get(name, ())) and (name == "boolean" or not isinstance(found, bool)):
            return found
    return value


def _types(schema: Any) -> Iterator[str]:
    """Yield the types that a schema allows; nothing if the schema names no type."""
    if not isinstance(schema, Mapping):
        return
    stated = schema.get("type")
    if isinstance(stated, str):
        yield stated
    elif isinstance(stated, list):
        yield from (name for name in stated if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        for option in options if isinstance(options, list) else ():
            yield from (str(name) for name in _stated(option))


def _stated(option: Any) -> list[str]:
    """Return the types of one alternative. An alternative that names no type may allow a text."""
    stated = option.get("type") if isinstance(option, Mapping) else None
    if isinstance(stated, list):
        return [name for name in stated if isinstance(name, str)]
    return [stated] if isinstance(stated, str) else ["string"]


def _parsed(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, float) and math.isinf(found) else found


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
