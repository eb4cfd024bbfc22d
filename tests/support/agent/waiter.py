"""An agent with the sub-agent `waiter`, and the orders to it."""

import json
from collections.abc import Iterable
from typing import Any

from tests.support.waiting import await_until

from fleetwright_a2a.extensions import TOOL_CALL

WAITER = {
    "name": "waiter",
    "description": "Serves guests.",
    "instructions": "You are the waiter of the house. Be quick.",
    "tools": ["house__book_table", "house__charge_card", "house__cook_dish"],
}

LEARNING = {"subAgents": [WAITER], "memory": {"skills": {"enabled": True}}}
"""Settings of an agent that learns skills from the waiter."""


def order_task(task: str) -> str:
    """Return the message that makes the agent give one task to the waiter."""
    return f'Give a task to the sub-agent waiter: "{task}"'


def order_tasks(*tasks: str) -> str:
    """Return the message that makes the agent give several tasks to waiters at the same time."""
    listed = json.dumps([{"agent": "waiter", "task": task} for task in tasks])
    return f"Give several tasks to sub-agents that work side by side, as a task batch: {listed}"


def find_reported_calls(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every tool call in the stream."""
    statuses = (event["statusUpdate"]["status"] for event in events if "statusUpdate" in event)
    metadata = (status["message"].get("metadata", {}) for status in statuses if "message" in status)
    return [each[TOOL_CALL] for each in metadata if TOOL_CALL in each]


async def await_cooking(house: Any, portions: int = 1) -> None:
    """Wait until the house cooks this number of portions."""
    await await_until(
        lambda: len(house.ledger) >= portions, f"the house cooks {portions} portions", shown=lambda: house.ledger
    )
