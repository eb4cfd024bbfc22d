"""The tools that read the workspace: `read_file`, `list_directory` and `search_files`. They change nothing."""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_agent.config.workspace import WorkspaceTool
from fleetwright_agent.storage.workspace import WorkspaceStore
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.tools.workspace import schemas
from fleetwright_agent.tools.workspace.paths import real_path
from fleetwright_agent.tools.workspace.response_fields import items_of, number_of, text_of, texts_of, version_of
from fleetwright_agent.tools.workspace.runner import RunnerError, WorkspaceRunner

_LINES: Final = 2000
_MOST_ENTRIES: Final = 1000
_MOST_MATCHES: Final = 100
_MOST_PATTERN: Final = 1000
_MOST_NAMES: Final = 3


class FileTools:
    def __init__(self, runner: WorkspaceRunner, store: WorkspaceStore) -> None:
        self._runner = runner
        self._store = store

    def tools(self) -> dict[WorkspaceTool, Tool]:
        where = schemas.path("Path of the file, relative to the root of the workspace")
        offset = schemas.count("Lines to skip from the start; 0 by default", least=0, most=10_000_000)
        limit = schemas.count(f"Lines to read; {_LINES} by default", least=1, most=_LINES)
        folder = schemas.path("Path of the folder; the root of the workspace by default")
        pattern = schemas.text("Regular expression", least=1, most=_MOST_PATTERN)
        include = schemas.text("Only files whose names match this glob, such as *.py", least=1, most=256)
        return {
            WorkspaceTool.READ_FILE: Tool(
                WorkspaceTool.READ_FILE,
                "Read a text file of the workspace. Read a file before you edit it. Longer lines and files are cut.",
                schemas.arguments({"path": where}, {"offset": offset, "limit": limit}),
                self._read,
                repeatable=True,
            ),
            WorkspaceTool.LIST_DIRECTORY: Tool(
                WorkspaceTool.LIST_DIRECTORY,
                "List the files and folders in a folder of the workspace.",
                schemas.arguments(
                    {}, {"path": folder, "depth": schemas.count("Levels of folders; 1 by default", least=1, most=5)}
                ),
                self._list,
                repeatable=True,
            ),
            WorkspaceTool.SEARCH_FILES: Tool(
                WorkspaceTool.SEARCH_FILES,
                f"Search the files of the workspace for a regular expression. At most {_MOST_MATCHES} lines are"
                " returned, those of the newest file first.",
                schemas.arguments({"pattern": pattern}, {"path": folder, "include": include}),
                self._search,
                repeatable=True,
            ),
        }

    async def _read(self, call: ToolCall) -> str:
        path = str(call.arguments["path"])
        real = await real_path(self._runner, path)
        wanted = {"offset": call.arguments.get("offset", 0), "limit": call.arguments.get("limit", _LINES)}
        try:
            answer = await self._runner.call("read", {"path": real, **wanted})
        except RunnerError as refused:
            raise _with_names(refused, path) from None
        turn = call.turn
        self._store.record_read(turn.owner, turn.context_id, real, version_of(answer))
        return _shown(answer, int(wanted["offset"]))

    async def _list(self, call: ToolCall) -> str:
        wanted = {"path": call.arguments.get("path", "."), "depth": call.arguments.get("depth", 1)}
        answer = await self._runner.call("list", {**wanted, "limit": _MOST_ENTRIES})
        lines = [_entry(entry) for entry in items_of(answer, "entries")[:_MOST_ENTRIES]]
        if answer.get("truncated") is True:
            lines.append(f"[There are more; the first {_MOST_ENTRIES} are shown.]")
        return "\n".join(lines) or "[The folder is empty.]"

    async def _search(self, call: ToolCall) -> str:
        answer = await self._runner.call("search", {"path": ".", **call.arguments, "limit": _MOST_MATCHES})
        found = items_of(answer, "matches")[:_MOST_MATCHES]
        lines = [f"{text_of(each, 'path')}:{number_of(each, 'line')}: {text_of(each, 'text')}" for each in found]
        if answer.get("truncated") is True:
            lines.append(f"[There are more; the first {_MOST_MATCHES} are shown. Use a narrower pattern or path.]")
        return "\n".join(lines) or "[Nothing matches.]"


def _with_names(refused: RunnerError, path: str) -> ToolError:
    """Return the error with the names of similar files, if the file is missing."""
    nearest = texts_of(refused.details, "nearest")[:_MOST_NAMES]
    if refused.code != "not_found" or not nearest:
        return refused
    return ToolError(f"there is no file {path}; similar names: {', '.join(nearest)}")


def _shown(answer: Mapping[str, Any], offset: int) -> str:
    text, lines, total = text_of(answer, "text"), number_of(answer, "lines"), number_of(answer, "total_lines")
    notes = []
    if offset or offset + lines < total:
        notes.append(f"Lines {offset + 1} to {offset + lines} of {total}; offset {offset + lines} continues.")
    if cut := number_of(answer, "truncated_lines"):
        notes.append(f"{cut} long lines are cut.")
    if not text:
        notes.append("There is no text in this part of the file.")
    return f"{text}\n[{' '.join(notes)}]" if notes else text


def _entry(entry: Mapping[str, Any]) -> str:
    name, kind = text_of(entry, "name"), text_of(entry, "kind")
    if kind == "file":
        return f"{name} ({number_of(entry, 'size')} bytes)"
    return {"directory": f"{name}/", "link": f"{name} (link)"}.get(kind, f"{name} (special)")
