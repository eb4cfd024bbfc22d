"""The newest tasks of an agent: those of all callers for an administrator, or those of one client."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from fleetwright_a2a.extensions import COST
from fleetwright_cli.administration.addresses import admin_client
from fleetwright_cli.cluster.tables import visible
from fleetwright_cli.terminal.commands import address_options
from fleetwright_cli.terminal.transport.addresses import endpoint_of
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.errors import (
    AccessDenied,
    AdministratorMissingError,
    NotAdministrator,
    RequestError,
)

TASKS_PATH: Final = "/admin/tasks"
_HEAD: Final = ("TASK", "STATE", "CALLER", "CONVERSATION", "UPDATED", "COST", "REQUEST", "REASON")
_NOT_FOUND: Final = 404
_PAGE: Final = 100
_LONGEST: Final = 48
_UNFINISHED: Final = frozenset({"", "unspecified", "submitted", "working"})
_SHORT: Final = 8
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListedTasks:
    tasks: list[Json]
    """Objects of the shape that `GET /admin/tasks` returns, the most recently updated first."""
    limitation: str = ""
    """Why the tasks of other callers are missing; empty if none are."""


async def read_tasks(agent: str | None, options: dict[str, Any], *, most: int, owner: str | None) -> ListedTasks:
    """Return the newest tasks.

    A client that the options name sees its own tasks. Otherwise the first administrator of the agent sees the tasks of
    all callers. Without `owner`, the list falls back to the tasks of the client `default` if the agent has no
    administrator, refuses the token (403), or has no such endpoint (404), or if the user may not read the Agent or the
    Secret of its administrator.

    Args:
        agent: The agent; None if the options have its URL.
        options: The options of the command that select the agent and the client.
        most: The maximum number of tasks.
        owner: Limits the list to one caller.

    Raises:
        AgentNotSpecified: The options do not name one agent.
        TransportError: The tasks cannot be read.
    """
    if options["client"] is not None:
        return ListedTasks(await _client_tasks(agent, options, most))
    parameters = {"limit": str(most), **({} if owner is None else {"owner": owner})}
    try:
        client = await admin_client(agent, options)
        try:
            answer = await client.call("GET", TASKS_PATH, parameters)
        finally:
            await client.close()
    except (NotAdministrator, RequestError, AccessDenied) as error:
        is_older = isinstance(error, RequestError) and error.code == _NOT_FOUND
        is_no_administrator = isinstance(error, AdministratorMissingError | NotAdministrator | AccessDenied)
        if owner is not None or not (is_older or is_no_administrator):
            raise
        return ListedTasks(await _client_tasks(agent, options, most), str(error))
    return ListedTasks([task for task in answer.get("tasks") or () if isinstance(task, Mapping)])


async def _client_tasks(agent: str | None, options: Mapping[str, Any], most: int) -> list[Json]:
    """Return the newest tasks of one client with ListTasks of A2A. Raises: AgentNotSpecified, TransportError."""
    endpoint = endpoint_of(address_options(agent, **options), os.environ, Path.cwd())
    # The owner of a token at --url is not known here, nor which client a fleet of `dev` chooses.
    known = options["client"] or ("default" if isinstance(endpoint, ClusterEndpoint) else "")
    owner = f"client:{known}" if known and options["url"] is None else ""
    client = AgentClient(endpoint)
    try:
        return [summarize_task(task, owner=owner) for task in await newest_tasks(client, most=most)]
    finally:
        await client.close()


async def newest_tasks(client: AgentClient, *, most: int) -> list[Json]:
    """Return at most `most` A2A tasks with their history, the most recently updated first. Raises: TransportError."""
    found: list[Json] = []
    token = ""
    while len(found) < most:
        following = {"pageToken": token} if token else {}
        page = await client.tasks(pageSize=min(_PAGE, most - len(found)), includeArtifacts=True, **following)
        found += [task for task in page.get("tasks", ()) if isinstance(task, Mapping)]
        token = str(page.get("nextPageToken") or "")
        if not token:
            break
    return found


def summarize_task(task: Json, *, owner: str) -> Json:
    """Return an A2A task in the shape that `GET /admin/tasks` returns. Pure.

    As there, the cost is null and the reason is empty while the task runs.
    """
    status = task.get("status") or {}
    state = str(status.get("state") or "").removeprefix("TASK_STATE_").lower().replace("_", "-")
    first: Json = next((each for each in task.get("history") or () if each.get("role") == "ROLE_USER"), {})
    rests = state not in _UNFINISHED
    cost = cost_of(task) if rests else None
    return {
        "id": str(task.get("id") or ""),
        "owner": owner,
        "contextId": str(task.get("contextId") or ""),
        "state": state,
        "updatedAt": str(status.get("timestamp") or ""),
        "costUsd": None if cost is None else f"{cost:f}",
        "request": _text_of(first),
        "reason": _text_of(status.get("message") or {}) if rests else "",
    }


def cost_of(task: Json) -> Decimal | None:
    """Return the cost of an A2A task in USD; None if the agent did not report one."""
    sources = [*(task.get("artifacts") or ()), (task.get("status") or {}).get("message") or {}]
    for source in sources:
        reported = (source.get("metadata") or {}).get(COST)
        if isinstance(reported, Mapping) and "costUsd" in reported:
            return Decimal(str(reported["costUsd"]))
    return None


def task_rows(tasks: Sequence[Json], *, whole: bool) -> list[tuple[str, ...]]:
    """Return the header and one row for each task. Args: `whole` shows ids and texts in full."""
    return [_HEAD, *(_row(task, whole) for task in tasks)]


def _row(task: Json, whole: bool) -> tuple[str, ...]:
    ids = [visible(str(task.get(key) or "-")) for key in ("id", "contextId")]
    identity, context = ids if whole else [each[:_SHORT] for each in ids]
    cost = task.get("costUsd")
    return (
        identity,
        visible(str(task.get("state") or "-")),
        visible(str(task.get("owner") or "-")),
        context,
        visible(str(task.get("updatedAt") or "-")[:19]),
        "-" if cost is None else f"{visible(str(cost))} USD",
        *(_cell(str(task.get(key) or "-"), whole) for key in ("request", "reason")),
    )


def _cell(text: str, whole: bool) -> str:
    line = visible(" ".join(text.split()))
    return line if whole or len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _text_of(message: Json) -> str:
    return "\n".join(str(part["text"]) for part in message.get("parts") or () if part.get("text"))
