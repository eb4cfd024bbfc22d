"""Counts how often the pod of an agent's preflight was lost, and schedules retries with exponential backoff.

The counts are kept in memory only, so a restart begins with the shortest pause. If the preflight's input changes, the
count starts again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.rollout.preflight_result import PreflightInterrupted

_FIRST_PAUSE_SECONDS = 10
_LONGEST_PAUSE_SECONDS = 600


@dataclass(slots=True)
class _BackoffState:
    question: str
    pod: str = ""
    """The uid of the last observed pod. `counted` is the uid of the last pod whose loss was counted."""
    counted: str = ""
    losses: int = 0
    due: int = 0
    why: PreflightInterrupted | None = None
    obstacle: str = ""


class PreflightBackoff:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._states: dict[Key, _BackoffState] = {}

    def observe(self, agent: Key, question: str, pod: str, *, obstacle: str = "") -> None:
        """Record the current pod. `pod` is its uid, or empty; `obstacle` is what keeps it from running."""
        known = self._states.get(agent)
        if known is None or known.question != question:
            known = self._states[agent] = _BackoffState(question)
        known.pod = pod or known.pod
        known.obstacle = obstacle or known.obstacle

    def is_trying(self, agent: Key, question: str) -> bool:
        """Return whether a preflight with this input has begun, even if it waits for a slot or a retry."""
        known = self._states.get(agent)
        return known is not None and known.question == question

    def pod_disappeared(self, agent: Key) -> bool:
        """Return whether the observed pod disappeared before its end was observed."""
        return self._states[agent].pod != self._states[agent].counted

    def record_interruption(self, agent: Key, why: PreflightInterrupted) -> None:
        known = self._states[agent]
        if known.pod == known.counted:
            return  # the pod is still terminating
        known.counted = known.pod
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(known.losses, 10))
        known.losses += 1
        known.due = self._now() + pause
        known.why = (
            PreflightInterrupted(f"{why.message}: {known.obstacle}", late=True) if why.late and known.obstacle else why
        )
        known.obstacle = ""

    def next_attempt(self, agent: Key) -> tuple[PreflightInterrupted, int] | None:
        """Return the reason why the preflight is paused, and the time of the next attempt."""
        known = self._states.get(agent)
        return (known.why, known.due) if known and known.why and known.due > self._now() else None

    def forget(self, agent: Key) -> None:
        self._states.pop(agent, None)
