"""Refuses messages to agents whose budget is used up, before an agent is woken or reached.

Reads, cancellations and cards are never refused, because they cost nothing. Neither are messages that the agent may
accept without room in its budget. An agent that sleeps is never refused because of a missing report, because it reports
nothing until a message wakes it.
"""

from fleetwright_a2a.clock import Clock
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.budgets import exhausted_budget, has_unreported_budget
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.proxy.budget_exempt_messages import is_budget_exempt
from fleetwright_gateway.proxy.request_kinds import sends_message

_UNREPORTED = "The agent has not reported its budgets yet. Try again later."
_UNREPORTED_SECONDS = 10


class BudgetCheck:
    def __init__(self, clock: Clock, *, refuse_unreported: bool) -> None:
        """Args: `refuse_unreported` is True if an agent gets no messages before it has reported its budgets."""
        self._clock = clock
        self._refuse_unreported = refuse_unreported

    def require(self, agent: AgentView, verb: str, path: str, body: bytes) -> None:
        """Refuse a message that the agent would reject. Args: `path` is the path at the agent. Raises: Refused."""
        if not agent.spec.budgets:
            return
        now = self._clock.now()
        full = exhausted_budget(agent, now=now)
        is_unknown = self._refuse_unreported and not agent.status.get("sleep") and has_unreported_budget(agent)
        if (full is None and not is_unknown) or not sends_message(verb, path, body):
            return
        if full is not None:
            if is_budget_exempt(path, body):
                return
            sentence = f"The budget of this agent, {full.name}, is used up; there is room again at {full.resets_at}."
            raise Refused(402, sentence, {"Retry-After": str(int(full.until - now) + 1)})
        raise Refused(503, _UNREPORTED, {"Retry-After": str(_UNREPORTED_SECONDS)})
