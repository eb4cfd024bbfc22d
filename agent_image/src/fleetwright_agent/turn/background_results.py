"""Brings the results of background tasks into the conversation, as a call of the model and its result.

The messages follow the caller's message, because some model providers refuse a history with a call before it. The ids
of the calls are derived from the tasks, so a result that is already in the conversation is recognised.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Final, Protocol

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from fleetwright_agent.protocol.frames import Frame, ToolEnd, ToolStart, TurnRequest
from fleetwright_agent.storage.open_questions import DelegatedTask
from fleetwright_agent.tools.fleet.background_result import BackgroundResult

_TOOL: Final = "ask_agent"
_PREVIEW: Final = 800


class BackgroundTasksPort(Protocol):
    async def finished(self, turn: TurnRequest) -> list[BackgroundResult]: ...

    async def undelivered(self, turn: TurnRequest) -> list[DelegatedTask]: ...

    async def delivered(self, tasks: Sequence[DelegatedTask]) -> None: ...


def call_id(task: DelegatedTask) -> str:
    """Return the id of the call that holds the result of a task."""
    name = f"{task.owner}\n{task.context_id}\n{task.peer}\n{task.task_id}"
    return f"call_{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def undelivered(results: Sequence[BackgroundResult], messages: Sequence[AnyMessage]) -> list[BackgroundResult]:
    """Return the results that the conversation does not have yet."""
    known = _call_ids(messages)
    return [result for result in results if call_id(result.task) not in known]


def delivered(tasks: Sequence[DelegatedTask], messages: Sequence[AnyMessage]) -> list[DelegatedTask]:
    """Return the tasks whose results the conversation has."""
    known = _call_ids(messages)
    return [task for task in tasks if call_id(task) in known]


def _call_ids(messages: Sequence[AnyMessage]) -> set[str]:
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def result_messages(results: Sequence[BackgroundResult]) -> list[AnyMessage]:
    if not results:
        return []
    calls = [{"id": call_id(each.task), "name": _TOOL, "args": _arguments(each.task)} for each in results]
    told = (
        ToolMessage(
            f"The result of task {each.task.task_id}, which was begun earlier: {each.text}",
            tool_call_id=call_id(each.task),
            name=_TOOL,
            status="success" if each.ok else "error",
        )
        for each in results
    )
    return [AIMessage("", tool_calls=calls), *told]


def result_frames(results: Sequence[BackgroundResult]) -> list[Frame]:
    """Return the frames that report the results to the caller."""
    frames: list[Frame] = []
    for each in results:
        identity = call_id(each.task)
        frames += each.frames
        frames.append(ToolStart(identity, _TOOL, json.dumps(_arguments(each.task))))
        frames.append(ToolEnd(identity, _TOOL, each.ok, each.text[:_PREVIEW], len(each.text)))
    return frames


def _arguments(task: DelegatedTask) -> dict[str, str]:
    return {"agent": task.peer, "task_id": task.task_id}
