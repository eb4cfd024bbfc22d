"""The points in a conversation that an undo and a fork refer to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_a2a.extensions import CONTEXT_FORK, WORKSPACE_UNDO
from fleetwright_cli.terminal.model.events import SnapshotEvent
from fleetwright_cli.terminal.model.values import TaskPhase


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The conversation whose history another one begins with, and the last of its tasks."""

    context_id: str
    task_id: str

    @property
    def metadata(self) -> dict[str, Any]:
        return {CONTEXT_FORK: {"contextId": self.context_id, "taskId": self.task_id}}


def undo_metadata(task: SnapshotEvent) -> dict[str, Any]:
    return {WORKSPACE_UNDO: {"taskId": task.status.task_id}}


def undo_target(turns: Sequence[SnapshotEvent], count: int) -> SnapshotEvent | None:
    """Return the first of the last `count` tasks whose changes are not undone yet, or None if there are fewer.

    An undo covers its task and all later ones up to the undo. Args: `turns` are oldest first.
    """
    undone: set[str] = set()
    for at, turn in enumerate(turns):
        before = [each.status.task_id for each in turns[:at]]
        if turn.undoes in before and turn.status.phase is TaskPhase.COMPLETED:
            undone |= set(before[before.index(turn.undoes) :])
    left = [each for each in turns if not each.undoes and each.status.task_id not in undone and _has_worked(each)]
    return left[-count] if len(left) >= count else None


def fork_point(context_id: str, turns: Sequence[SnapshotEvent], left_out: int) -> ForkPoint | None:
    """Return the point before the last `left_out` turns, or None if no turn is left. Only turns that worked count."""
    turns = [each for each in turns if _has_worked(each)]
    kept = turns[: len(turns) - left_out] if left_out < len(turns) else ()
    return ForkPoint(context_id, kept[-1].status.task_id) if kept else None


def _has_worked(turn: SnapshotEvent) -> bool:
    """Return whether the history of the agent has the task.

    An agent does not begin rejected tasks, nor those that were cancelled in its queue. The latter report that they
    have used nothing; a cancelled task without a report may have changed files. A task that names the conversation is
    not part of its history.
    """
    if turn.names or turn.status.phase is TaskPhase.REJECTED:
        return False
    cost = turn.status.cost
    if turn.status.phase is not TaskPhase.CANCELED or cost is None or turn.answers or turn.files or turn.calls:
        return True
    return bool(cost.input_tokens or cost.output_tokens or cost.model_calls or cost.tool_calls)
