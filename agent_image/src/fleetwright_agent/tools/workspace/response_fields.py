"""Reads the fields of a runner's answer. A runner is not trusted, so every field has a default of its type."""

from collections.abc import Mapping
from typing import Any

from fleetwright_agent.storage.workspace import FileVersion


def text_of(answer: Mapping[str, Any], field: str) -> str:
    value = answer.get(field)
    return value if isinstance(value, str) else ""


def number_of(answer: Mapping[str, Any], field: str) -> int:
    value = answer.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def items_of(answer: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = answer.get(field)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def texts_of(answer: Mapping[str, Any], field: str) -> list[str]:
    value = answer.get(field)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def version_of(answer: Mapping[str, Any]) -> FileVersion:
    return FileVersion(text_of(answer, "digest"), number_of(answer, "mtime_ns"))
