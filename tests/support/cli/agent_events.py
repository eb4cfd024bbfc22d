"""A card of an agent, and a change of a task, as an agent sends them to the terminal."""

from typing import Any

from fleetwright_a2a.extensions import CONTEXT_FORK, WORKSPACE_UNDO

CARD = {
    "name": "desk",
    "version": "1",
    "description": "Answers",
    "skills": [{"id": "refunds"}],
    "capabilities": {"extensions": [{"uri": CONTEXT_FORK}, {"uri": WORKSPACE_UNDO}]},
    "supportedInterfaces": [{"url": "http://x/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


def status_update(state: str, task: str = "t", **message: Any) -> dict[str, Any]:
    about = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-01T00:00:00Z", "message": message}
    return {"statusUpdate": {"taskId": task, "contextId": "c", "status": about}}
