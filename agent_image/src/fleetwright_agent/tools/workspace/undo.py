"""Restores the files that tools have changed in given tasks. Only a caller's own request leads here, never a model."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleetwright_agent.protocol.context_changes import FilesRestored
from fleetwright_agent.tools.port import ToolError
from fleetwright_agent.tools.workspace.response_fields import items_of, text_of
from fleetwright_agent.tools.workspace.runner import RunnerError, RunnerUnavailable, WorkspaceRunner, turn_name

_MOST_TURNS: Final = 1000
_MOST_FILES: Final = 500
_MOST_REASON: Final = 200


class WorkspaceUndo:
    def __init__(self, runner: WorkspaceRunner) -> None:
        self._runner = runner

    async def undo(self, owner: str, task_id: str, tasks: Sequence[str]) -> FilesRestored:
        """Restore the files of these tasks of the owner. A file that something else has changed since is skipped.

        A repetition with the same `task_id`, which is the task of the undo itself, returns the report of the first.

        Raises:
            ToolError: The workspace cannot be reached, or the outcome is unknown.
        """
        turns = [turn_name(owner, task) for task in tasks[-_MOST_TURNS:]]
        answer = await self._rewind({"turns": turns, "turn": turn_name(owner, task_id)})
        restored = answer.get("restored")
        paths = [each for each in restored if isinstance(each, str)] if isinstance(restored, list) else []
        skipped = [
            (text_of(each, "path"), text_of(each, "reason")[:_MOST_REASON]) for each in items_of(answer, "skipped")
        ]
        return FilesRestored(tuple(paths[:_MOST_FILES]), tuple(skipped[:_MOST_FILES]))

    async def _rewind(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the runner, and once more if the answer is lost. Raises: ToolError."""
        try:
            return await self._runner.call("rewind", arguments)
        except (RunnerError, RunnerUnavailable):
            raise
        except ToolError:
            return await self._runner.call("rewind", arguments)
