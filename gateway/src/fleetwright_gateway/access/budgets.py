"""Finds exhausted and unreported budgets in the status of an Agent. Pure.

The ledger of the agent is the single source of truth for its spending. The status of the Agent repeats what the agent
reported: the time until which no task can begin. The budgets of an agent hold for all of its callers. A budget with
`onExceeded: Pause` never refuses here, because its agent accepts the task and lets it wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_kube.timestamps import parse_timestamp

_PAUSE: Final = "Pause"
_EACH: Final = {"Hour": "an hour", "Day": "a day", "Month": "a month"}


@dataclass(frozen=True, slots=True)
class ExhaustedBudget:
    name: str
    """The budget in words, such as `25 US dollars a day`."""
    until: int
    """The time of the reset in seconds since the epoch."""
    resets_at: str


def exhausted_budget(agent: AgentView, *, now: float) -> ExhaustedBudget | None:
    """Return the budget because of which no task of the agent can begin; among several, the one that resets last.

    An entry of the status with other limits than the spec does not count: the budget has been changed since.
    """
    found = [(spec, _until(entry)) for spec, entry in _entries(agent) if entry is not None]
    full = [ExhaustedBudget(_name(spec), until, text) for spec, (until, text) in found if until > now]
    return max(full, key=lambda each: each.until, default=None)


def has_unreported_budget(agent: AgentView) -> bool:
    """Return whether the agent has a budget that refuses tasks and is not in its status with the same limits."""
    return any(entry is None for _, entry in _entries(agent))


def _entries(agent: AgentView) -> list[tuple[BudgetSpec, Mapping[str, Any] | None]]:
    """Return the budgets of the spec that refuse tasks, each with its entry in the status."""
    shown = agent.status.get("budgets", ())
    return [
        (spec, next((entry for entry in shown if _is_same(spec, entry)), None))
        for spec in agent.spec.budgets
        if spec.on_exceeded != _PAUSE
    ]


def _is_same(spec: BudgetSpec, entry: Mapping[str, Any]) -> bool:
    return (spec.period, spec.usd, spec.tokens) == (entry.get("period"), entry.get("usd"), entry.get("tokens"))


def _until(entry: Mapping[str, Any]) -> tuple[int, str]:
    text = entry.get("exhaustedUntil", "")
    try:
        return parse_timestamp(text), text
    except ValueError:
        return 0, ""


def _name(spec: BudgetSpec) -> str:
    usd = [f"{spec.usd} US dollars"] if spec.usd is not None else []
    tokens = [f"{spec.tokens} tokens"] if spec.tokens is not None else []
    return f"{' and '.join([*usd, *tokens])} {_EACH.get(spec.period, '')}"
