"""How the last tasks of an agent ended, from its status, and a weight for the choice between agents. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from fleetwright_gateway.registry.models import OutcomeModel

UNKNOWN = 1.0
"""The weight of an agent without outcomes, so that a new agent gets tasks."""


def outcomes_of(status: Mapping[str, Any]) -> list[OutcomeModel]:
    """Return the outcomes for each skill. Tasks for which no skill was named come first."""
    found = status.get("activity", {}).get("outcomes", ())
    return [_outcome(each) for each in found]


def weight_of(outcomes: Iterable[OutcomeModel]) -> float:
    """Return the weight of an agent over all its skills."""
    known = list(outcomes)
    costs = [each.cost_usd for each in known]
    cost = None if None in costs else sum(float(each or 0) for each in costs)
    return _weight(sum(each.tasks for each in known), sum(each.succeeded for each in known), cost)


def _outcome(found: Mapping[str, Any]) -> OutcomeModel:
    tasks, succeeded, cost = found["tasks"], found["succeeded"], found.get("costUSD")
    weight = _weight(tasks, succeeded, None if cost is None else float(cost))
    return OutcomeModel(
        skill=found.get("skill", ""), tasks=tasks, succeeded=succeeded, cost_usd=cost, weight=weight
    )  # fmt: skip


def _weight(tasks: int, succeeded: int, cost: float | None) -> float:
    """Return the share of successful tasks, divided by one plus the cost in US dollars of each success.

    An agent without a price counts as free of charge.
    """
    if tasks == 0:
        return UNKNOWN
    if succeeded == 0:
        return 0.0
    return round(succeeded / tasks / (1 + (cost or 0.0) / succeeded), 3)
