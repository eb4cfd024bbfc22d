"""The costs that an agent reports for a task."""

from typing import Any

COST = "https://proto-labs.ai/a2a/ext/cost-v1"
"""The name of the extension, as documents state it."""


def read_cost(task: dict[str, Any]) -> dict[str, Any]:
    """Return the one cost of a task, which is in its artifact or in the message of its status."""
    holders = [*task.get("artifacts", ()), task["status"].get("message", {})]
    (payload,) = [each["metadata"][COST] for each in holders if COST in each.get("metadata", {})]
    found: dict[str, Any] = payload
    return found
