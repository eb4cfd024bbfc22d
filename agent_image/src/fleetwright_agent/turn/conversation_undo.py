"""The turn of a caller who undoes file changes of the conversation. It calls no model.

The caller's message and the outcome become part of the conversation, so that the model knows of the undo.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from fleetwright_agent.protocol.context_changes import FilesRestored
from fleetwright_agent.protocol.frames import TurnFailed, TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.port import ToolBlocked, ToolError
from fleetwright_agent.turn.images import user_message

_NAME: Final = "workspace_undo"
"""The name in the audit trail, and of the outcome in the stored answer."""
_MOST_NAMED: Final = 50
_FORBIDDEN: Final = "an undo needs the action UseWriteTools, which the role of this caller does not allow"
_NOTHING: Final = (
    "No file was restored: tools changed none since then, or it is too long ago. Changes of commands cannot be undone."
)


class FileUndo(Protocol):
    async def undo(self, owner: str, task_id: str, tasks: Sequence[str]) -> FilesRestored:
        """Restore the files that tools have changed in these tasks of the owner. Raises: ToolError.

        Args: `task_id` is the task of the undo itself. A repetition with it returns the same report.
        """


class CallAudit(Protocol):
    async def begins(self, request: TurnRequest, tool: str, arguments: Mapping[str, Any]) -> None: ...

    async def ended(
        self,
        request: TurnRequest,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        text: str,
        outcome: str,
        seconds: float,
    ) -> None: ...


class ConversationUndo:
    def __init__(
        self, graph: Any, files: FileUndo, audit: CallAudit, *, actions_of: Callable[[str], frozenset[CallerAction]]
    ) -> None:
        """Args: `actions_of` returns the actions that the role of a caller allows."""
        self._graph = graph
        self._files = files
        self._audit = audit
        self._actions_of = actions_of

    async def run(
        self, request: TurnRequest, thread: str, messages: Sequence[AnyMessage], task_id: str
    ) -> list[AnyMessage]:
        """Undo the changes of the task and of all later tasks, and return the messages that end the conversation.

        Raises:
            TurnFailed: The conversation has no such task, or the workspace cannot be used.
        """
        tasks = tasks_since(messages, task_id)
        if not tasks:
            raise TurnFailed("undo_unknown", "Nothing can be undone: this conversation has no such task.", refused=True)
        try:
            report = await self._undo(request, tasks)
        except ToolError as error:
            raise TurnFailed("workspace", f"Nothing is known to be undone: {error}.") from error
        told = AIMessage(undo_text(report), response_metadata={_NAME: report.payload()})
        asked = user_message(request).model_copy(update={"id": request.task_id})
        news: list[AnyMessage] = [asked, told]
        place: RunnableConfig = {"configurable": {"thread_id": thread}}
        await self._graph.aupdate_state(place, {"messages": news, "task": request.task_id}, as_node="model")
        return news

    async def _undo(self, request: TurnRequest, tasks: Sequence[str]) -> FilesRestored:
        arguments, started = {"tasks": list(tasks)}, time.perf_counter()
        await self._audit.begins(request, _NAME, arguments)
        outcome, text = "error", ""
        try:
            if CallerAction.USE_WRITE_TOOLS not in self._actions_of(request.owner):
                raise ToolBlocked(_FORBIDDEN)
            report = await self._files.undo(request.owner, request.task_id, tasks)
            outcome, text = "ok", undo_text(report)
        except ToolBlocked as error:
            outcome, text = error.outcome, str(error)
            raise
        finally:
            seconds = time.perf_counter() - started
            await self._audit.ended(request, _NAME, arguments, text=text, outcome=outcome, seconds=seconds)
        return report


def tasks_since(messages: Sequence[AnyMessage], task_id: str) -> list[str]:
    """Return the ids of the task and of all later tasks; empty if there is no such task."""
    tasks = [str(each.id) for each in messages if isinstance(each, HumanMessage) and each.id]
    return tasks[tasks.index(task_id) :] if task_id in tasks else []


def stored_report(message: AnyMessage) -> FilesRestored | None:
    """Return the outcome of an undo that a stored answer contains."""
    stored = message.response_metadata.get(_NAME) if isinstance(message, AIMessage) else None
    return None if stored is None else FilesRestored.load(stored)


def undo_text(report: FilesRestored) -> str:
    lines = []
    if report.restored:
        lines.append(f"Restored {_named(report.restored)}.")
    if report.skipped:
        lines.append(f"Not restored: {_named([f'{path} ({reason})' for path, reason in report.skipped])}.")
    return "\n".join(lines) or _NOTHING


def _named(names: Sequence[str]) -> str:
    shown = [name if name.isprintable() else ascii(name) for name in names[:_MOST_NAMED]]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return ", ".join([*shown, *more])
