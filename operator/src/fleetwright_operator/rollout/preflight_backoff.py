"""How often an agent's preflight lost its pod, and when it is tried again: after pauses that grow.

Kept in memory only: after a restart the first pause is the shortest. Another question begins anew.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_operator.observe.watch_index import Key
from fleetwright_operator.rollout.preflight_result import Lost

_FIRST_PAUSE_SECONDS = 10
_LONGEST_PAUSE_SECONDS = 600


@dataclass(slots=True)
class _Try:
    question: str
    pod: str = ""
    """The uid of the last that was seen; the same in `counted` once it was lost."""
    counted: str = ""
    losses: int = 0
    due: int = 0
    why: Lost | None = None
    obstacle: str = ""


class Tries:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._tries: dict[Key, _Try] = {}

    def saw(self, agent: Key, question: str, pod: str, *, obstacle: str = "") -> None:
        """`pod` is its uid, empty where there is none; `obstacle` is what keeps it from running."""
        known = self._tries.get(agent)
        if known is None or known.question != question:
            known = self._tries[agent] = _Try(question)
        known.pod = pod or known.pod
        known.obstacle = obstacle or known.obstacle

    def is_trying(self, agent: Key, question: str) -> bool:
        """Whether it is this question that was begun: it runs, was answered, or waits for its turn or its next try."""
        known = self._tries.get(agent)
        return known is not None and known.question == question

    def misses(self, agent: Key) -> bool:
        """Whether a pod was seen whose end was not."""
        return self._tries[agent].pod != self._tries[agent].counted

    def lost(self, agent: Key, why: Lost) -> None:
        known = self._tries[agent]
        if known.pod == known.counted:
            return  # it is still on its way out
        known.counted = known.pod
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(known.losses, 10))
        known.losses += 1
        known.due = self._now() + pause
        known.why = Lost(f"{why.message}: {known.obstacle}", late=True) if why.late and known.obstacle else why
        known.obstacle = ""

    def next_at(self, agent: Key) -> tuple[Lost, int] | None:
        """Why it is not tried now, and the moment from which it will be."""
        known = self._tries.get(agent)
        return (known.why, known.due) if known and known.why and known.due > self._now() else None

    def forget(self, agent: Key) -> None:
        self._tries.pop(agent, None)
