"""Decides whether an idle prompt is due. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleState:
    """The facts about the agent that decide whether it is idle."""

    tasks: int
    """The tasks that run or wait for their turn."""
    quiet_seconds: float
    """The seconds since the last task ended or began to wait for its caller, or since the process became ready."""
    is_over_budget: bool
    """True if a budget is exceeded."""


def is_idle_prompt_due(state: IdleState, *, every_seconds: int) -> bool:
    """Return whether the agent has been idle for long enough, and can pay for a task.

    The caller of this function also has to look for an earlier idle prompt whose task waits for a person.
    """
    return state.tasks == 0 and state.quiet_seconds >= every_seconds and not state.is_over_budget
