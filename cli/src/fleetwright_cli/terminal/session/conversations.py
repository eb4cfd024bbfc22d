"""The conversations of an agent: those that the agent lists, and those that only the local index knows."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from fleetwright_a2a.extensions import CONTEXT_TITLE
from fleetwright_cli.safe_text import one_line
from fleetwright_cli.terminal.model.decoding import decode, snapshot
from fleetwright_cli.terminal.model.events import SnapshotEvent, StatusEvent
from fleetwright_cli.terminal.model.values import WAITING, TaskPhase
from fleetwright_cli.terminal.session.local_index import TITLE_LENGTH, IndexEntry
from fleetwright_cli.terminal.session.messages import new_message
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.errors import RequestError

_PAGE: Final = 100
_MOST_PAGES: Final = 20
_RENAME_SECONDS: Final = 15.0
SHOWN_TURNS: Final = 20


@dataclass(frozen=True, slots=True)
class ListedConversation:
    context_id: str
    title: str
    used: float
    waits: bool = False
    """True if a task of the conversation waits for a person."""
    on_agent: bool = True
    """False if only the local index knows the conversation. The agent remembers it, without its transcript."""


async def conversations(client: AgentClient, index: Sequence[IndexEntry]) -> list[ListedConversation]:
    """Return the conversations: first those that wait for a person, then the newest. Raises: TransportError."""
    tasks: list[Mapping[str, Any]] = []
    token = ""
    for _ in range(_MOST_PAGES):
        page = await client.tasks(pageSize=_PAGE, **({"pageToken": token} if token else {}))
        tasks += [task for task in page.get("tasks", ()) if isinstance(task, Mapping)]
        token = str(page.get("nextPageToken") or "")
        if not token:
            break
    return merged(tasks, index)


def merged(tasks: Sequence[Mapping[str, Any]], index: Sequence[IndexEntry]) -> list[ListedConversation]:
    """Group tasks by conversation, and add the entries of the index. Pure."""
    known = {entry.context_id: entry for entry in index}
    groups: dict[str, list[tuple[float, SnapshotEvent]]] = {}
    for task in tasks:
        found = snapshot(task)
        if found.names and found.status.phase is TaskPhase.REJECTED:
            continue  # The agent knows no such conversation.
        groups.setdefault(found.status.context_id, []).append((_time(task), found))
    listed = [_listed(context_id, group, known.get(context_id)) for context_id, group in groups.items()]
    listed += [
        ListedConversation(entry.context_id, entry.title, entry.used, on_agent=False)
        for entry in index
        if entry.context_id not in groups
    ]
    return sorted(listed, key=lambda each: (not each.waits, -each.used))


async def transcript(client: AgentClient, context_id: str) -> list[SnapshotEvent]:
    """Return the newest tasks of a conversation, oldest first, with their answers. Raises: TransportError."""
    page = await client.tasks(contextId=context_id, includeArtifacts=True, pageSize=SHOWN_TURNS)
    tasks = [task for task in page.get("tasks", ()) if isinstance(task, Mapping)]
    return [snapshot(task) for task in sorted(tasks, key=_time)]


async def earlier_turns(client: AgentClient, turns: Sequence[SnapshotEvent]) -> list[SnapshotEvent]:
    """Return the turns of the conversations from which this one was forked, oldest first. Raises: TransportError."""
    found: list[SnapshotEvent] = []
    fork = turns[0].forked_from if turns else None
    while fork is not None and len(found) + len(turns) < SHOWN_TURNS:
        context_id, last = fork
        source = [each for each in await transcript(client, context_id) if not each.names]
        ids = [each.status.task_id for each in source]
        source = source[: ids.index(last) + 1] if last in ids else [] if last else source
        found = [*source, *found]
        fork = source[0].forked_from if source else None
    room = SHOWN_TURNS - len(turns)
    return found[-room:] if room > 0 else []


async def rename(client: AgentClient, context_id: str, title: str, *, deadline: asyncio.Timeout | None = None) -> None:
    """Store the title of a conversation on the agent. Raises: TransportError."""
    message = new_message(f"/rename {title}", message_id=str(uuid4()), context_id=context_id)
    sent = client.send(message, title_metadata(title))
    status: StatusEvent | None = None
    try:
        async with (
            deadline or asyncio.timeout(_RENAME_SECONDS),
            aclosing(sent) as results,  # type: ignore[type-var] # the client's streams are generators
        ):
            async for result in results:
                event = decode(result)
                event = event.status if isinstance(event, SnapshotEvent) else event
                status = event if isinstance(event, StatusEvent) else status
    except TimeoutError:
        # The end of the connection does not cancel a task, so the agent still carries out what it has accepted.
        accepted = "the agent is busy with this conversation; it stores the title when the running task has ended"
        silent = "the agent has not answered in time; /sessions shows whether it stores the title"
        raise RequestError(accepted if status is not None else silent) from None
    except RequestError as error:
        if CONTEXT_TITLE in str(error):
            # The agent names the field of the metadata, which the user does not know.
            raise RequestError("the agent does not accept this title; use other characters", code=error.code) from None
        raise
    if status is None or status.phase is not TaskPhase.COMPLETED:
        raise RequestError(status.text if status and status.text else "the agent has not stored the title; try again")


def title_metadata(title: str) -> dict[str, Any]:
    return {CONTEXT_TITLE: {"title": title}}


def _listed(context_id: str, group: list[tuple[float, SnapshotEvent]], entry: IndexEntry | None) -> ListedConversation:
    group.sort(key=lambda each: each[0])
    said = (text for _, task in group if not task.names for role, text in task.history if role == "user" and text)
    given = one_line(group[-1][1].title, TITLE_LENGTH)
    title = given or (entry.title if entry else "") or one_line(next(said, ""), TITLE_LENGTH)
    waits = any(task.status.phase in WAITING for _, task in group)
    return ListedConversation(context_id, title, group[-1][0], waits)


def _time(task: Mapping[str, Any]) -> float:
    status = task.get("status")
    value = status.get("timestamp") if isinstance(status, Mapping) else None
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0
