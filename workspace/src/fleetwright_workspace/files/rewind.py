"""Restores the files that tools changed in some turns, except files that something else has changed since."""

from __future__ import annotations

from collections.abc import Sequence

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.file_writer import FileWriter
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.undo_store import RecordedChange, UndoStore

_BETWEEN = "something else changed it between two edits"


def rewind(
    root: WorkspaceRoot, undo: UndoStore, writer: FileWriter, turns: Sequence[str], name: str
) -> dict[str, object]:
    """Restore the files, and return which were restored and which were not. Turns that changed nothing are ignored.

    Args: `name` identifies this undo: a repetition returns the same report. It may be empty.
    """
    with undo.reports.lock:
        report = undo.reports.find(name, turns) if name else None
        return report or _rewind(root, undo, writer, turns, name)


def _rewind(
    root: WorkspaceRoot, undo: UndoStore, writer: FileWriter, turns: Sequence[str], name: str
) -> dict[str, object]:
    restored: list[str] = []
    skipped: list[dict[str, str]] = []
    for path, history in _histories(undo.changes(turns)).items():
        reason = _BETWEEN if _is_interrupted(history) else ""
        if not reason:
            try:
                reason = writer.restore(root.locate(path), history[0], history[-1])
            except CallError as error:
                reason = str(error)
        if reason:
            skipped.append({"path": path, "reason": reason})
        else:
            restored.append(path)
    report: dict[str, object] = {"restored": restored, "skipped": skipped}
    if name:
        undo.reports.keep(name, turns, report)  # Before the changes are forgotten, because the process may end here.
    undo.forget(turns, restored)
    return report


def _histories(changes: list[RecordedChange]) -> dict[str, list[RecordedChange]]:
    histories: dict[str, list[RecordedChange]] = {}
    for change in changes:
        history = histories.setdefault(change.path, [])
        # A change that failed after it was recorded left the file as it was.
        if history and history[-1].after != change.before and history[-1].before == change.before:
            history.pop()
        history.append(change)
    return histories


def _is_interrupted(history: list[RecordedChange]) -> bool:
    return any(second.before != first.after for first, second in zip(history, history[1:]))
