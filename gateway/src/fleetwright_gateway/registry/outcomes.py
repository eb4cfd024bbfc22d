"""How the last tasks of an agent ended, from its status, and a weight for the choice between agents. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from fleetwright_gateway.registry.models import OutcomeModel

DEFAULT_WEIGHT = 1.0
"""The weight of an agent without outcomes, so that a new agent gets tasks."""


def outcomes_of(status: Mapping[str, Any]) -> list[OutcomeModel]:
    """Return the outcomes for each skill. Tasks for which no skill was named come first."""
    found = status.get("activity", {}).get("outcomes", ())
    return [_outcome(each) for each in found]


def weight_of(outcomes: Iterable[OutcomeModel]) -> float:
    """Return the weight of an agent over all its skills. The cost of a success is that of the skills with a price."""
    known = list(outcomes)
    priced = [each for each in known if each.cost_usd is not None]
    cost = _cost_per_success(sum(float(each.cost_usd or 0) for each in priced), sum(each.succeeded for each in priced))
    return _weight(sum(each.tasks for each in known), sum(each.succeeded for each in known), cost)


def _outcome(found: Mapping[str, Any]) -> OutcomeModel:
    tasks, succeeded, cost = found["tasks"], found["succeeded"], found.get("costUSD")
    weight = _weight(tasks, succeeded, _cost_per_success(float(cost or 0), succeeded))
    return OutcomeModel(
        skill=found.get("skill", ""), tasks=tasks, succeeded=succeeded, cost_usd=cost, weight=weight
    )  # fmt: skip


def _cost_per_success(cost: float, succeeded: int) -> float:
    return cost / succeeded if succeeded else 0.0


def _weight(tasks: int, succeeded: int, cost_of_success: float) -> float:
    """Return the share of successful tasks, divided by one plus the cost in US dollars of each success.

    An agent without a price counts as free of charge.
    """
    return round(succeeded / tasks / (1 + cost_of_success), 3) if tasks else DEFAULT_WEIGHT
