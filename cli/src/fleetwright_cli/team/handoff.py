"""Asks an agent for a handoff over A2A: the text that its successor reads."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.errors import RequestError

REQUEST: Final = (
    "You will be replaced by a sub-agent that does not have your memory. Write a handoff for it, in at most 500 words:"
    " what you know that it needs, what is unfinished, and what it must not repeat. Include no passwords or tokens."
    " Answer with the handoff only, and use no tools that change anything."
)
_COMPLETED: Final = "TASK_STATE_COMPLETED"


async def request_handoff(client: AgentClient) -> str:
    """Return what the agent answers. Raises: TransportError."""
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": REQUEST}]}
    task = ""
    async for event in client.send(message):
        task = task or _task_of(event)
    found = await client.get(task) if task else {}
    state = (found.get("status") or {}).get("state", "")
    text = "\n".join(part["text"] for part in _parts(found) if isinstance(part.get("text"), str)).strip()
    if state != _COMPLETED or not text:
        word = str(state).removeprefix("TASK_STATE_").lower() or "no task"
        raise RequestError(f"the agent {client.endpoint.title} wrote no handoff ({word})")
    return text


def _task_of(event: Mapping[str, Any]) -> str:
    for key, name in (("task", "id"), ("statusUpdate", "taskId"), ("artifactUpdate", "taskId")):
        if isinstance(event.get(key), Mapping):
            return str(event[key].get(name) or "")
    return ""


def _parts(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for artifact in task.get("artifacts") or () for part in artifact.get("parts") or ()]
