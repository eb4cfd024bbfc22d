"""The todo list in the arguments of the tool `todo_write`. Pure.

The wire carries at most 800 characters of the arguments, so the list may end in the middle of an item.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from fleetwright_cli.safe_text import one_line
from fleetwright_cli.terminal.model.values import TodoItem

TOOL: Final = "todo_write"
_TEXTS: Final = ("content", "task", "text", "title")
_DONE: Final = frozenset({"completed", "done"})
_LONGEST: Final = 200


def todos_of(arguments: str) -> tuple[TodoItem, ...] | None:
    """Return the complete items, or None if the arguments contain no list."""
    start = arguments.find("[")
    if start < 0:
        return None
    return tuple(item for value in _objects(arguments, start + 1) if (item := _item(value)) is not None)


def open_todos(todos: tuple[TodoItem, ...]) -> int:
    return sum(item.status not in _DONE for item in todos)


def is_done(item: TodoItem) -> bool:
    return item.status in _DONE


def _objects(text: str, at: int) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    while (found := re.compile(r"[\s,]*(?=\{)").match(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, found.end())
        except ValueError:
            return
        yield value


def _item(value: dict[str, Any]) -> TodoItem | None:
    text = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    status = value.get("status")
    if text is None:
        return None
    return TodoItem(one_line(text, _LONGEST), status if isinstance(status, str) else "pending")
