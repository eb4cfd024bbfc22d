"""The outcomes of runs that were terminated or have failed, and the events that report them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from a2a.types.a2a_pb2 import Task, TaskState, TaskStatusUpdateEvent

from fleetwright_a2a.extension_codec import attach, has_part
from fleetwright_a2a.extensions import COST
from fleetwright_a2a.task_events import LEFT, agent_message, status_event
from fleetwright_agent.protocol.interrupts import pause_of


@dataclass(frozen=True, slots=True)
class Termination:
    """The reason and the final state of a run that was terminated or has failed."""

    state: TaskState
    sentence: str
    """The reason and the remedy, for the caller; never contains internal details."""
    reason: str
    """The reason in machine-readable form."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON values, for programs."""


_FAILED = TaskState.TASK_STATE_FAILED
BROKE = Termination(
    _FAILED, "The agent could not finish this task because of an internal error; try again.", "internal"
)
UNWRITTEN = Termination(_FAILED, "The result of this task could not be stored; try again later.", "storage")
RESTARTED = Termination(_FAILED, "The agent restarted while this task was running; send the message again.", "restart")
DRAINED = Termination(_FAILED, "The agent was shut down before this task was done; send the message again.", "shutdown")
GIVEN_UP = Termination(
    _FAILED, "The agent stopped each time that it worked on this task, so the task is not retried.", "restart"
)
UNREADABLE = Termination(
    _FAILED, "The stored data of this task cannot be read any more; send the message again.", "unreadable"
)
CANCELED = Termination(TaskState.TASK_STATE_CANCELED, "The task was cancelled on request.", "canceled")

_LEFT = "The agent is restarting and will resume this task; read the task or subscribe to it again afterwards."


def too_long(seconds: float) -> Termination:
    return Termination(_FAILED, f"The turn did not finish within {seconds:g} seconds.", "deadline")


def unanswered(tool: str) -> Termination:
    return Termination(
        _FAILED, f"The call of {tool} was not approved in time; the tool has not run.", "approval_expired"
    )


def unanswered_again(tool: str) -> Termination:
    return Termination(
        _FAILED,
        f"The call of {tool} was not approved in time; the tool has not run. It is the second approval of this task"
        " that has expired, so the task has ended; send the message again when a person can approve the call.",
        "approval_expired",
    )


def stalled(seconds: float, last: str) -> Termination:
    return Termination(_FAILED, f"Nothing happened for {seconds:g} seconds; the last activity was: {last}.", "stall")


def handed_over_status(task: Task, *, at_ns: int) -> TaskStatusUpdateEvent:
    """Return the status of an unfinished task that this process leaves to the next process."""
    message = agent_message(_LEFT, message_id=str(uuid4()))
    message.metadata["reason"] = LEFT
    return status_event(task.id, task.context_id, TaskState.TASK_STATE_WORKING, at_ns=at_ns, message=message)


def terminal_status(task: Task, outcome: Termination, *, at_ns: int) -> TaskStatusUpdateEvent:
    """Return the terminal status of a task with this outcome.

    If the task was waiting for input, the status message contains the cost, because the task gets no artifact.
    """
    message = agent_message(outcome.sentence, message_id=str(uuid4()))
    message.metadata.update({**outcome.details, "reason": outcome.reason})
    pause = pause_of(task)
    if pause is not None and pause.cost is not None:
        # The question's status message has the cost as metadata or as a data part. Use the same form here.
        as_part = has_part(task.status.message, COST)
        attach(message, COST, {**pause.cost, "success": False}, as_part=as_part)
    return status_event(task.id, task.context_id, outcome.state, at_ns=at_ns, message=message)
