"""The JSON Schemas of the tools' parameters."""

from collections.abc import Mapping
from typing import Any, Final

_MOST_PATH: Final = 4096


def arguments(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def path(description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": _MOST_PATH, "description": description}


def text(description: str, *, most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "string", "minLength": least, "maxLength": most, "description": description}


def count(description: str, *, least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}
