"""The calls of the API that answer with one JSON object. Each takes its fields, and returns the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetwright_workspace import VERSION
from fleetwright_workspace.files import folders
from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.excerpts import MOST_LINES, read_excerpt
from fleetwright_workspace.files.file_writer import EditRequest, FileWriter
from fleetwright_workspace.files.rewind import rewind
from fleetwright_workspace.files.root import LONGEST_PATH, WorkspaceRoot
from fleetwright_workspace.files.search import LONGEST_PATTERN, MOST_RESULTS, FileSearch
from fleetwright_workspace.files.undo_store import LONGEST_TURN, UndoStore
from fleetwright_workspace.runner.fields import Fields

_MOST_PATHS = 100
_MOST_TURNS = 1000
_MOST_COUNT = 10_000
_LATEST = 2**31
_LONGEST_DIGEST = 128


class FileCalls:
    def __init__(self, root: WorkspaceRoot, undo: UndoStore, search: FileSearch) -> None:
        self._root = root
        self._undo = undo
        self._search = search
        self._writer = FileWriter(root, undo)
        self.table: Mapping[str, Callable[[Fields], dict[str, object]]] = {
            "/v1/read": self._read,
            "/v1/write": self._write,
            "/v1/edit": self._edit,
            "/v1/list": self._list,
            "/v1/tree": self._tree,
            "/v1/instructions": self._instructions,
            "/v1/search": self._find,
            "/v1/paths": self._paths,
            "/v1/checkpoints": self._checkpoint,
            "/v1/rewind": self._rewind,
        }

    def _read(self, fields: Fields) -> dict[str, object]:
        path = _path(fields)
        offset = fields.number("offset", 0, least=0, most=_LATEST)
        limit = fields.number("limit", 2000, least=1, most=MOST_LINES)
        fields.finish()
        try:
            return dict(read_excerpt(self._root, self._root.locate(path), offset=offset, limit=limit)._asdict())
        except CallError as error:
            if error.code == "not_found":
                error.details["nearest"] = folders.nearest_names(self._root, path)
            raise

    def _write(self, fields: Fields) -> dict[str, object]:
        path, content = _path(fields), fields.text("content")
        expected, turn, dry_run = fields.expected(required=False), fields.turn(LONGEST_TURN), fields.flag("dry_run")
        fields.finish()
        location = self._root.locate(path)
        return self._writer.write(location, content, expected=expected, turn=turn, dry_run=dry_run)

    def _edit(self, fields: Fields) -> dict[str, object]:
        path = _path(fields)
        old, new = fields.text("old"), fields.text("new")
        count = fields.number("count", 1, least=1, most=_MOST_COUNT)
        expected, turn, dry_run = fields.expected(required=True), fields.turn(LONGEST_TURN), fields.flag("dry_run")
        result_digest = fields.text("result_digest", "", longest=_LONGEST_DIGEST)
        fields.finish()
        assert expected is not None  # noqa: S101 - it is required
        request = EditRequest(old, new, count, expected, result_digest)
        return self._writer.edit(self._root.locate(path), request, turn=turn, dry_run=dry_run)

    def _list(self, fields: Fields) -> dict[str, object]:
        path = _path(fields, ".")
        depth = fields.number("depth", 1, least=1, most=10)
        limit = fields.number("limit", 1000, least=1, most=10_000)
        fields.finish()
        return folders.list_folder(self._root, self._root.locate(path), depth=depth, limit=limit)

    def _tree(self, fields: Fields) -> dict[str, object]:
        depth = fields.number("depth", 3, least=1, most=10)
        entries = fields.number("entries", 20, least=1, most=1000)
        fields.finish()
        return {"text": folders.draw_tree(self._root, depth=depth, entries=entries)}

    def _instructions(self, fields: Fields) -> dict[str, object]:
        paths = fields.texts("paths", most=_MOST_PATHS, longest=_MOST_PATHS * LONGEST_PATH)
        fields.finish()
        return {"files": folders.find_instructions(self._root, paths)}

    def _find(self, fields: Fields) -> dict[str, object]:
        pattern = fields.text("pattern", longest=LONGEST_PATTERN)
        path = _path(fields, ".")
        include = fields.text("include", "", longest=LONGEST_PATTERN)
        limit = fields.number("limit", 100, least=1, most=MOST_RESULTS)
        fields.finish()
        if not pattern or "\0" in pattern + include or "\n" in pattern:
            raise CallError("bad_request", "pattern: give a regular expression without newlines and zero bytes")
        return self._search.run(pattern, self._root.locate(path), include=include, limit=limit)

    def _paths(self, fields: Fields) -> dict[str, object]:
        paths = fields.texts("paths", most=_MOST_PATHS, longest=_MOST_PATHS * LONGEST_PATH)
        cwd = fields.text("cwd", ".", longest=LONGEST_PATH)
        fields.finish()
        base = self._root.absolute(self._root.locate(cwd))
        return {"paths": [self._describe(path, base) for path in paths]}

    def _describe(self, path: str, base: str) -> dict[str, object]:
        """Return where a path leads. The response does not tell what exists outside the root."""
        try:
            location = self._root.locate(path if path.startswith("/") else f"{base}/{path}")
        except CallError:
            return {"path": path, "real": "", "inside": False, "exists": False, "kind": ""}
        status = self._root.status(location)
        kind = "" if status is None else folders.kind_of(status)
        real = self._root.absolute(location)
        return {"path": path, "real": real, "inside": True, "exists": status is not None, "kind": kind}

    def _checkpoint(self, fields: Fields) -> dict[str, object]:
        turn = fields.turn(LONGEST_TURN)
        fields.finish()
        self._undo.begin(turn)
        return {"turn": turn}

    def _rewind(self, fields: Fields) -> dict[str, object]:
        turns = fields.texts("turns", most=_MOST_TURNS, longest=_MOST_TURNS * LONGEST_TURN)
        name = fields.text("turn", "", longest=LONGEST_TURN)
        fields.finish()
        return rewind(self._root, self._undo, self._writer, turns, name)

    def info(self) -> dict[str, object]:
        return {"version": VERSION, "root": self._root.given}


def _path(fields: Fields, default: str | None = None) -> str:
    return fields.text("path", default, longest=LONGEST_PATH)
