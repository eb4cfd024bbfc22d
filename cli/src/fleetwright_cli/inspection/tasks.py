"""The tasks of an agent, as its A2A server lists them for the caller."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from fleetwright_a2a.extensions import COST
from fleetwright_cli.cluster.tables import visible
from fleetwright_cli.terminal.transport.agent_client import AgentClient

_HEAD: Final = ("TASK", "STATE", "CONVERSATION", "UPDATED", "COST", "REQUEST")
_PAGE: Final = 100
_TITLE: Final = 48
_SHORT: Final = 8
Json = Mapping[str, Any]


async def newest_tasks(client: AgentClient, *, most: int) -> list[Json]:
    """Return at most `most` tasks, the most recently updated first. Raises: TransportError."""
    found: list[Json] = []
    token = ""
    while len(found) < most:
        following = {"pageToken": token} if token else {}
        page = await client.tasks(
            pageSize=min(_PAGE, most - len(found)), includeArtifacts=True, historyLength=1, **following
        )
        found += [task for task in page.get("tasks", ()) if isinstance(task, Mapping)]
        token = str(page.get("nextPageToken") or "")
        if not token:
            break
    return found


def task_rows(tasks: Sequence[Json], *, whole: bool) -> list[tuple[str, ...]]:
    """Return the header and one row for each task. Args: `whole` shows ids in full."""
    return [_HEAD, *(_row(task, whole) for task in tasks)]


def cost_of(task: Json) -> Decimal | None:
    """Return the cost of a task in USD; None if the agent did not report one."""
    for artifact in task.get("artifacts") or ():
        reported = (artifact.get("metadata") or {}).get(COST)
        if isinstance(reported, Mapping) and "costUsd" in reported:
            return Decimal(str(reported["costUsd"]))
    return None


def _row(task: Json, whole: bool) -> tuple[str, ...]:
    status, cost = task.get("status") or {}, cost_of(task)
    ids = [str(task.get(key) or "-") for key in ("id", "contextId")]
    identity, context = ids if whole else [each[:_SHORT] for each in ids]
    said: Json = next((each for each in task.get("history") or () if each.get("role") == "ROLE_USER"), {})
    request = visible(" ".join(str(part.get("text", "")) for part in said.get("parts") or ()))
    return (
        visible(identity),
        str(status.get("state", "-")).removeprefix("TASK_STATE_").lower().replace("_", "-"),
        visible(context),
        str(status.get("timestamp") or "-")[:19],
        "-" if cost is None else f"{cost:f} USD",
        (request if len(request) <= _TITLE else f"{request[: _TITLE - 1]}…") or "-",
    )
