"""Checks answers to questions: their format, the right to approve, and the arguments that an approval changes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from fleetwright_agent.protocol.frames import InterruptKind, TurnRequest
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.protocol.turn import NO_EDITS, ChecksEdits
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.human_input.answer_values import answer_value
from fleetwright_agent.tools.human.approval import read_reply, reply_problem

_REVIEWERS: Final = (
    "This caller may not approve or decline the tool call of this task. Somebody else has to decide, for example with"
    " fleetwright approve; the task continues then. CancelTask ends it"
)


class AnswerChecks:
    def __init__(self, *, may_approve: Callable[[str], bool], edits: object) -> None:
        """
        Args:
            may_approve: Returns whether a caller may approve the tool calls of its own tasks.
            edits: Checks changed arguments if it implements `ChecksEdits`. Otherwise no arguments may be changed.
        """
        self._may_approve = may_approve
        self._edits = edits

    async def check(self, live: ActiveTask, message: Message) -> str:
        """Check an answer of the task's caller, if the task waits for one.

        Returns the id of the approval whose changed arguments were checked, or an empty text.

        Raises:
            UnsupportedOperationError: The caller may not give this approval.
            InvalidParamsError: The answer does not fit the question, or the changed arguments may not run.
        """
        pause = None if live.busy else pause_of(live.task)
        if pause is None:
            return ""
        if pause.kind is InterruptKind.APPROVAL and not self._may_approve(live.owner):
            raise UnsupportedOperationError(_REVIEWERS)
        try:
            value = answer_value(message, pause)
        except ValueError as error:
            raise InvalidParamsError(str(error)) from None
        if pause.kind is not InterruptKind.APPROVAL:
            return ""
        if unclear := _parts_problem(message) or reply_problem(value):
            raise InvalidParamsError(f"message.parts: {unclear}")
        reply = read_reply(value, pause.grants)
        if reply.arguments is None or reply.arguments == pause.arguments:
            return ""
        if problem := await self.edit_problem(live, pause.tool, reply.arguments, untyped=reply.untyped):
            raise InvalidParamsError(f"message.parts: the changed arguments may not run: {problem}")
        return pause.identity

    async def edit_problem(
        self, live: ActiveTask, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        """Return why the tool may not run with these arguments, or None if it may."""
        if not isinstance(self._edits, ChecksEdits):
            return NO_EDITS
        metadata = MessageToDict(live.task.history[0].metadata) if live.task.history else {}
        request = TurnRequest(live.owner, live.context_id, live.task_id, "", metadata=metadata)
        return await self._edits.edit_problem(request, tool, arguments, untyped=untyped)


def _parts_problem(message: Message) -> str:
    """Return why a message with several data parts is no decision: only the first would count."""
    if sum(part.HasField("data") for part in message.parts) > 1:
        return "a decision is one data part; put approved and arguments into the same part"
    return ""
