"""The tools of the todo list of a conversation: `todo_read` and `todo_write`, which replaces the whole list."""

import json
from dataclasses import asdict
from typing import Final

from fleetwright_agent.config.workspace import WorkspaceTool
from fleetwright_agent.storage.workspace import Todo, WorkspaceStore
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.tools.workspace import schemas

_MOST_TODOS: Final = 100
_STATES: Final = ("pending", "in_progress", "completed", "cancelled")
_PRIORITIES: Final = ("high", "medium", "low")


class TodoTools:
    def __init__(self, store: WorkspaceStore) -> None:
        self._store = store

    def tools(self) -> dict[WorkspaceTool, Tool]:
        todo = schemas.arguments(
            {
                "id": schemas.text("Unique id", least=1, most=64),
                "content": schemas.text("What to do", least=1, most=1000),
                "status": {"type": "string", "enum": list(_STATES)},
                "priority": {"type": "string", "enum": list(_PRIORITIES)},
            }
        )
        return {
            WorkspaceTool.TODO_READ: Tool(
                WorkspaceTool.TODO_READ,
                "Read the todo list of this conversation.",
                schemas.arguments({}),
                self._read,
                repeatable=True,
            ),
            WorkspaceTool.TODO_WRITE: Tool(
                WorkspaceTool.TODO_WRITE,
                "Replace the todo list of this conversation. Use it to plan work of several steps.",
                schemas.arguments({"todos": {"type": "array", "maxItems": _MOST_TODOS, "items": todo}}),
                self._write,
                repeatable=True,
            ),
        }

    async def _read(self, call: ToolCall) -> str:
        return todo_text(await self._store.todos(call.turn.owner, call.turn.context_id)) or "There are no todos."

    async def _write(self, call: ToolCall) -> str:
        todos = [Todo(**todo) for todo in call.arguments["todos"]]
        if len({todo.id for todo in todos}) < len(todos):
            raise ToolError("todos: two items have the same id; give each item its own id")
        await self._store.put_todos(call.turn.owner, call.turn.context_id, todos)
        return todo_text(todos) or "The todo list is empty now."


def todo_text(todos: list[Todo]) -> str:
    """Return the list as JSON, one item a line."""
    return "\n".join(json.dumps(asdict(todo), ensure_ascii=False) for todo in todos)
