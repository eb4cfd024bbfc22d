"""Writes, edits and rewinds. One lock for each file makes the comparison and the replacement one step."""

from __future__ import annotations

import threading
from typing import NamedTuple

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.digest import digest
from fleetwright_workspace.files.file_store import EDIT_LIMIT, FileState, load, load_if_exists, remove, replace
from fleetwright_workspace.files.git_folders import refuse_git
from fleetwright_workspace.files.root import Location, WorkspaceRoot
from fleetwright_workspace.files.undo_store import RecordedChange, UndoStore
from fleetwright_workspace.text.document import TextDocument, decode, encode, normalised
from fleetwright_workspace.text.edit_matching import EditError, plan_edit
from fleetwright_workspace.text.unified_diff import FileDiff, replacement_diff, whole_diff

MTIME_TOLERANCE_NS = 100_000_000
_LOCKS = 64
_MOST_INSERTED = 4 * EDIT_LIMIT
"""Characters that an edit may insert at all its places, before the exact size is known."""


class ExpectedState(NamedTuple):
    """The state of the file when the caller read it. The digest decides, or else the modification time."""

    digest: str
    mtime_ns: int

    def matches(self, state: FileState) -> bool:
        if self.digest:
            return self.digest == state.digest
        return abs(state.mtime_ns - self.mtime_ns) <= MTIME_TOLERANCE_NS


class EditRequest(NamedTuple):
    old: str
    new: str
    places: int
    expected: ExpectedState
    result_digest: str
    """The digest after an earlier call with the same request; empty if the caller knows of none."""


class FileWriter:
    def __init__(self, root: WorkspaceRoot, undo: UndoStore) -> None:
        self._root = root
        self._undo = undo
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def write(
        self, location: Location, content: str, *, expected: ExpectedState | None, turn: str, dry_run: bool
    ) -> dict[str, object]:
        """Replace the whole content. A file with CRLF or a byte order mark keeps them if the content has none."""
        self._refuse_trusted(location)
        with self._lock(location):
            before = load_if_exists(self._root, location)
            data = _content_bytes(content, before)
            if len(data) > EDIT_LIMIT:
                raise CallError("too_large", f"content is larger than {EDIT_LIMIT} bytes")
            after = digest(data)
            repeated = before is not None and before.digest == after
            if expected is not None and not repeated and (before is None or not expected.matches(before)):
                raise _changed(location, before)
            document = None if before is None else decode(before.data)
            new = decode(data)
            if new is None:
                raise CallError("not_text", "content contains a zero byte")
            diff = FileDiff("", truncated=False)
            if not repeated:
                former = document.text if document is not None else None if before is None else ""
                diff = whole_diff(location.path, former, new.text)
            mtime_ns = before.mtime_ns if before is not None else 0
            if not repeated and not dry_run:
                mtime_ns = self._replace(location, before, data, after, turn)
        return {
            "path": location.path,
            "created": before is None,
            "diff": diff.text,
            "diff_truncated": diff.truncated,
            "digest": after,
            "mtime_ns": mtime_ns,
        }

    def edit(self, location: Location, request: EditRequest, *, turn: str, dry_run: bool) -> dict[str, object]:
        """Replace text that occurs exactly `count` times."""
        self._refuse_trusted(location)
        old, new = normalised(request.old), normalised(request.new)
        if not old:
            raise CallError("bad_request", "old is empty; copy the text to replace, or write the whole file")
        with self._lock(location):
            before = load(self._root, location)
            if request.result_digest and before.digest == request.result_digest:
                return _edit_answer(location, "", FileDiff("", truncated=False), before.digest, before.mtime_ns)
            if not request.expected.matches(before):
                raise _changed(location, before)
            if old == new:
                raise CallError("bad_request", "old and new are equal, so the edit changes nothing")
            document = decode(before.data)
            if document is None:
                raise CallError("not_text", f"{location.path} is not UTF-8 text")
            if request.places * len(new) > _MOST_INSERTED:
                raise _too_large(location)
            try:
                plan = plan_edit(document.text, old, new, request.places)
            except EditError as error:
                candidates = [candidate._asdict() for candidate in error.candidates]
                raise CallError(error.code, f"{location.path}: {error}", candidates=candidates) from None
            data = document.apply(plan.replacements)
            if len(data) > EDIT_LIMIT:
                raise _too_large(location)
            after = digest(data)
            diff = replacement_diff(location.path, document.text, plan.replacements)
            if dry_run or after == before.digest:
                return _edit_answer(location, plan.strategy, diff, after, before.mtime_ns)
            mtime_ns = self._replace(location, before, data, after, turn)
        return _edit_answer(location, plan.strategy, diff, after, mtime_ns, applied=True)

    def restore(self, location: Location, first: RecordedChange, last: RecordedChange) -> str:
        """Restore what the file was before the first change. Return the reason if it is not possible."""
        with self._lock(location):
            try:
                # The file may have become one of a repository since the change.
                self._refuse_trusted(location)
                current = load_if_exists(self._root, location)
            except CallError as error:
                return str(error)
            found = "" if current is None else current.digest
            if found == first.before:
                return ""
            if found != last.after:
                return "it was changed by something else since"
            return self._restore(location, current, first)

    def _restore(self, location: Location, current: FileState | None, first: RecordedChange) -> str:
        if not first.before:
            remove(self._root, location)
            return ""
        data = self._undo.content(first.before)
        if data is None:
            return "its former content is no longer kept"
        wanted = current._replace(mode=first.mode) if current is not None else None
        replace(self._root, location, data, wanted)
        return ""

    def _replace(self, location: Location, before: FileState | None, data: bytes, after: str, turn: str) -> int:
        former, mode = ("", 0) if before is None else (before.digest, before.mode)
        change = RecordedChange(turn, location.path, former, mode, after)
        self._undo.record(change, None if before is None else before.data)
        return replace(self._root, location, data, before)

    def _refuse_trusted(self, location: Location) -> None:
        """Refuse a write to a file that programs outside the workspace read, such as git.

        Raises:
            CallError: The file is one of them.
        """
        self._root.refuse_trusted(location)
        refuse_git(self._root, location)

    def _lock(self, location: Location) -> threading.Lock:
        return self._locks[hash(location.parts) % _LOCKS]


def _content_bytes(content: str, before: FileState | None) -> bytes:
    document: TextDocument | None = None if before is None else decode(before.data)
    if document is None:
        return content.encode()
    text = normalised(content) if document.bom else content
    if document.all_crlf and "\r" not in text:
        text = text.replace("\n", "\r\n")
    return encode(text, bom=document.bom)


def _edit_answer(
    location: Location, strategy: str, diff: FileDiff, after: str, mtime_ns: int, *, applied: bool = False
) -> dict[str, object]:
    return {
        "path": location.path,
        "strategy": strategy,
        "diff": diff.text,
        "diff_truncated": diff.truncated,
        "digest": after,
        "mtime_ns": mtime_ns,
        "applied": applied,
    }


def _too_large(location: Location) -> CallError:
    return CallError("too_large", f"{location.path} would become larger than {EDIT_LIMIT} bytes")


def _changed(location: Location, before: FileState | None) -> CallError:
    what = "does not exist any more" if before is None else "changed since it was read"
    return CallError("changed", f"{location.path} {what}; read it again")
