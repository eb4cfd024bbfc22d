"""The last list of open questions of each agent, and a rate limit for new questions.

Each new question costs a write to the API server. The limit is a token bucket: an agent may open `MAX_OPEN` questions
at once, and then one per second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fleetwright_api import names
from fleetwright_operator.approvals.approval_listing import MAX_OPEN, ApprovalListing, OpenApproval

_PER_SECOND: Final = 1


@dataclass(slots=True)
class _Agent:
    uid: str
    asks: dict[str, OpenApproval] = field(default_factory=dict)
    is_listed: bool = False
    allowance: float = MAX_OPEN
    refilled: int = 0


class OpenApprovalIndex:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._agents: dict[tuple[str, str], _Agent] = {}
        self._without_list: dict[tuple[str, str], str] = {}
        """The uids of the agents that do not serve a list."""

    @property
    def now(self) -> int:
        return self._now()

    def put(self, namespace: str, agent: str, *, uid: str, listing: ApprovalListing) -> bool:
        """Store the list of the agent with this uid. Return whether it is the first one, or has changed."""
        self._without_list.pop((namespace, agent), None)
        known = self._agents.get((namespace, agent))
        if known is None or known.uid != uid:
            known = self._agents[namespace, agent] = _Agent(uid, refilled=self.now)
        asks = {names.approval(agent, ask.ask): ask for ask in listing.asks}
        differs, known.asks = known.asks != asks, asks
        is_first, known.is_listed = not known.is_listed, True
        return differs or is_first

    def is_known(self, namespace: str, agent: str, *, uid: str) -> bool:
        """Return whether the agent has listed its questions since this process became the leader."""
        known = self._agents.get((namespace, agent))
        return known is not None and known.uid == uid

    def put_not_served(self, namespace: str, agent: str, *, uid: str) -> bool:
        """Record that the agent with this uid does not serve a list. Return whether this is new.

        The questions that it listed before stay known, because another image of the agent may serve a list again.
        """
        is_new = self._without_list.get((namespace, agent)) != uid
        self._without_list[namespace, agent] = uid
        return is_new

    def may_sleep(self, namespace: str, agent: str, *, uid: str) -> bool:
        """Return whether the agent has listed its questions, or serves no list. Its sleep then hides no question."""
        return self.is_known(namespace, agent, uid=uid) or self._without_list.get((namespace, agent)) == uid

    def find(self, namespace: str, agent: str, approval: str, *, uid: str) -> OpenApproval | None:
        """Return the open question that belongs to an Approval; None if the agent does not list it."""
        known = self._agents.get((namespace, agent))
        return known.asks.get(approval) if known is not None and known.uid == uid else None

    def approvals(self, namespace: str, agent: str) -> list[str]:
        """Return the names of the Approvals that belong to the agent's open questions."""
        known = self._agents.get((namespace, agent))
        return sorted(known.asks) if known is not None else []

    def wait_to_open(self, namespace: str, agent: str) -> float:
        """Return 0 and count a new question, or return the seconds until the agent may open another one."""
        known = self._agents[namespace, agent]
        now = self.now
        known.allowance = min(float(MAX_OPEN), known.allowance + (now - known.refilled) * _PER_SECOND)
        known.refilled = now
        if known.allowance < 1:
            return 1 / _PER_SECOND
        known.allowance -= 1
        return 0.0

    def forget(self, namespace: str, agent: str) -> None:
        self._agents.pop((namespace, agent), None)
        self._without_list.pop((namespace, agent), None)
