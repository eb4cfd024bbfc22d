"""The reports of an agent: the answer and the cost of a task, and its audit trail."""

import json
from typing import Any

COST = "https://proto-labs.ai/a2a/ext/cost-v1"
"""The name of the extension, as documents state it."""


def read_answer(task: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"])


def read_completed_answer(task: dict[str, Any]) -> str:
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    return read_answer(task)


def read_cost(task: dict[str, Any]) -> dict[str, Any]:
    """Return the one cost of a task, which is in its artifact or in the message of its status."""
    holders = [*task.get("artifacts", ()), task["status"].get("message", {})]
    (payload,) = [each["metadata"][COST] for each in holders if COST in each.get("metadata", {})]
    found: dict[str, Any] = payload
    return found


def read_audit_lines(mounted: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (mounted.layout.memory / "audit/audit.jsonl").read_text().splitlines()]
