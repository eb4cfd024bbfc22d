"""Counts how often the pod of an agent's preflight was lost or refused, and schedules retries with backoff.

The counts are kept in memory only, so a restart begins with the shortest pause. If the preflight's input changes, the
count starts again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_api.violation import Violation
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.rollout.preflight_result import PreflightInterrupted

_FIRST_PAUSE_SECONDS = 10
_LONGEST_PAUSE_SECONDS = 600
_FIRST_REFUSAL_SECONDS = 60
_LONGEST_REFUSAL_SECONDS = 300
"""A refused pod costs three writes: its policy is written before it, and deleted after the refusal."""


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
    refusal: Violation | None = None
    """Why the API server refused the last pod."""
    refusals: int = 0


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
        known.refusal = None
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(known.losses, 10))
        known.losses += 1
        known.due = self._now() + pause
        known.why = (
            PreflightInterrupted(f"{why.message}: {known.obstacle}", late=True) if why.late and known.obstacle else why
        )
        known.obstacle = ""

    def record_refusal(self, agent: Key, refusal: Violation) -> Violation:
        """Record that the API server refused the pod. Return the refusal with the time of the next attempt."""
        known = self._states[agent]
        pause = min(_LONGEST_REFUSAL_SECONDS, _FIRST_REFUSAL_SECONDS * 2 ** min(known.refusals, 10))
        known.refusals += 1
        known.why = None
        known.due = self._now() + pause
        again = f"it is tried again at {format_timestamp(known.due)}"
        known.refusal = Violation(refusal.reason, f"{refusal.message}; {again}")
        return known.refusal

    def refusal(self, agent: Key) -> Violation | None:
        """Return why the API server refused the pod, and when the next attempt is made; None if one is due."""
        known = self._states.get(agent)
        return known.refusal if known and known.due > self._now() else None

    def due(self, agent: Key) -> int | None:
        """Return the time of the next attempt; None if the preflight is not paused."""
        known = self._states.get(agent)
        is_paused = known is not None and (known.why or known.refusal) and known.due > self._now()
        return known.due if known is not None and is_paused else None

    def next_attempt(self, agent: Key) -> tuple[PreflightInterrupted, int] | None:
        """Return the reason why the preflight is paused, and the time of the next attempt."""
        known = self._states.get(agent)
        return (known.why, known.due) if known and known.why and known.due > self._now() else None

    def forget(self, agent: Key) -> None:
        self._states.pop(agent, None)
