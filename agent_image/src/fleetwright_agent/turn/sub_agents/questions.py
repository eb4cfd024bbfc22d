"""Questions of sub-agents to a person, which the call that started the sub-agent asks in their place.

A sub-agent that needs a person stops at its call, as a turn does. The delegating call then interrupts the turn with the
same question and with the same identity. The identity names one call of one sub-agent, so a reply never reaches another
call. LangGraph did not create this interrupt, so it runs the delegating call again. This call gives the reply to the
sub-agent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Interrupt, StateSnapshot

from fleetwright_agent.protocol.frames import InterruptReply

_TITLE: Final = "title"
_CALL_ID: Final = "callId"


@dataclass(frozen=True, slots=True)
class SubAgentQuestion:
    sub_agent: str
    outer: str
    """The provider's id of the call that started the sub-agent."""
    identity: str
    body: Mapping[str, Any]
    """The question as the sub-agent's call has asked it."""

    def graph_interrupt(self) -> GraphInterrupt:
        """Return the exception that interrupts the turn. The question names the sub-agent."""
        payload = dict(self.body["payload"])
        if title := payload.get(_TITLE):
            payload[_TITLE] = f"{title} (sub-agent {self.sub_agent})"
        told = {"prompt": f"Sub-agent {self.sub_agent}: {self.body['prompt']}", "payload": payload}
        if call_id := self.body.get(_CALL_ID):
            told[_CALL_ID] = nested_call_id(self.outer, call_id)
        return GraphInterrupt((Interrupt({**self.body, **told}, id=self.identity),))


def nested_call_id(outer: str, call_id: str) -> str:
    """Return the id under which the caller sees a call of a sub-agent, in reports and in questions."""
    return f"{outer}/{call_id}"


def first_question(sub_agent: str, outer: str, values: Mapping[str, Any]) -> SubAgentQuestion | None:
    """Return the question at which the run of a sub-agent has stopped, or None if the run is complete."""
    interrupts: Sequence[Interrupt] = values.get("__interrupt__") or ()
    return SubAgentQuestion(sub_agent, outer, interrupts[0].id, interrupts[0].value) if interrupts else None


def resume_with(reply: InterruptReply | None, stored: StateSnapshot) -> Command[Any] | None:
    """Return the command that gives the reply to the stored run, or None if the reply is for another call."""
    waiting = {found.id for task in stored.tasks for found in task.interrupts}
    return Command(resume={reply.ask: reply.value}) if reply is not None and reply.ask in waiting else None
