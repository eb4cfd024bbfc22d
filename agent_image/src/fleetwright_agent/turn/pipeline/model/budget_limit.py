"""Handles a turn whose budget is exhausted: the turn fails with a typed error, or waits for its caller."""

from typing import Any

from langgraph.types import interrupt

from fleetwright_agent.config.budgets import Exceeded
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import InterruptKind, TurnFailed
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import OverBudget
from fleetwright_agent.turn.cost.budget_report import moment
from fleetwright_agent.turn.cost.budgets import BudgetWindow

REASON = "budget_exceeded"


def enforce_budget(over: OverBudget, context: TurnContext, metrics: Metrics) -> None:
    """Fail the turn, or pause it until the caller replies. Return only if the caller has replied.

    Raises:
        TurnFailed: The turn fails.
        GraphInterrupt: The turn waits, as it does for any other question to its caller.
    """
    full = over.full
    metrics.budget_rejections.labels(full.budget.period.value).inc()
    # Only people are asked: calling agents do not read questions. For a sub-agent, the agent itself asks.
    waits = full.budget.on_exceeded is Exceeded.PAUSE and context.waits_for_budget and is_client(context.request.owner)
    if waits and not over.alone:
        interrupt(_pause(full))
        return
    sentence = _too_large(full) if over.alone else _sentence(full)
    raise TurnFailed(REASON, sentence, details=details(full), refused=context.fresh and context.called is None)


def _pause(full: BudgetWindow) -> dict[str, Any]:
    question = f"{_sentence(full)} Say anything after that, and this task goes on where it stopped."
    payload = {"question": question, **details(full)}
    return {"kind": InterruptKind.QUESTION.value, "prompt": question, "payload": payload, "tool": ""}


def _too_large(full: BudgetWindow) -> str:
    return (
        f"One call of the model could use more than the whole budget of this agent, {full.name}."
        " Waiting does not help: send less in a new conversation, or have the budget raised."
    )


def _sentence(full: BudgetWindow) -> str:
    return f"The budget of this agent, {full.name}, is used up; there is room again at {moment(full.ends)}."


def details(full: BudgetWindow) -> dict[str, Any]:
    budget = full.budget
    limits = {"usd": str(budget.usd)} if budget.usd is not None else {}
    tokens = {"tokens": budget.tokens} if budget.tokens is not None else {}
    return {"budget": {"period": budget.period.value, **limits, **tokens, "resetsAt": moment(full.ends)}}
