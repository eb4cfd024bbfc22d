"""The context of one turn: the request, the frame callback and the available tools.

LangGraph passes it to every hook as the runtime context. It exists only for the turn and is never stored.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Final, NotRequired, Required

from langchain.agents import AgentState
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import add_messages

from fleetwright_agent.protocol.frames import Frame, TurnFailed, TurnRequest
from fleetwright_agent.tools.port import Tool, TurnUsage
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.compaction.view import CompactionState

_message_id: Final = attrgetter("id")
"""`map` with this function reads the ids of a long conversation without executing bytecode for each message."""


def merge_messages(before: Sequence[AnyMessage], news: Any) -> list[AnyMessage]:
    """Return the same result as LangGraph's `add_messages`.

    At each step of a turn, LangGraph's reducer indexes the whole conversation by id, to replace messages with the same
    id. If no new message has the id of an earlier message, this function only appends the new messages.
    """
    said = news if isinstance(news, list) else [news]
    if any(not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage) for message in said):
        return _merged(before, said)
    named = {message.id for message in said if message.id is not None}
    if not before or not named.isdisjoint(map(_message_id, before)):
        return _merged(before, said)
    return [*before, *_merged([], said)]


def _merged(before: Sequence[AnyMessage], said: list[Any]) -> list[AnyMessage]:
    held: list[Any] = list(before)
    merged: Any = add_messages(held, said)
    return list(merged)


class TurnState(AgentState):
    """The stored state of a conversation."""

    messages: Required[Annotated[list[AnyMessage], merge_messages]]
    prior_sessions: NotRequired[str]
    task: NotRequired[str]
    """The id of the task that the newest messages belong to."""


@dataclass(slots=True)
class TurnContext:
    request: TurnRequest
    emit: Callable[[Frame], None]
    tools: Mapping[str, Tool]
    thread: str = ""
    """The thread id under which the journal stores the calls of this turn."""
    unreachable: dict[str, str] = field(default_factory=dict)
    """MCP servers whose tools could not be listed, each with the reason."""
    withheld: frozenset[str] = frozenset()
    """Names of tools whose declarations the model does not receive."""
    found: tuple[str, ...] = ()
    """Withheld tools that the model has meanwhile found or called, so that it now receives their declarations."""
    remembered: str | None = None
    """Remembered facts for this turn, as the model reads them; None before the first lookup."""
    workspace: str | None = None
    """The overview of the workspace for this turn, as the model reads it; None before it is read."""
    workspace_before: str | None = None
    """The id of the message before which the prompts of this turn show the overview."""
    hold: Callable[["asyncio.Future[None]"], None] = lambda _: None
    """Delays all later frames until this write is on disk."""
    usage: TurnUsage = field(default_factory=TurnUsage)
    waits_for_budget: bool = True
    """True if an exceeded budget may pause this loop; False for a sub-agent, because its turn pauses instead."""
    spoken: bool = False
    """True if the current model call has streamed any text to the caller."""
    silent: bool = False
    """True if the caller does not receive the current output of the model."""
    observed: bool = False
    calls_since_summary: int | None = None
    """Model calls since the last summary in this turn; None before the first summary."""
    fresh: bool = True
    """True for a new message of the caller, False for a turn that resumes."""
    idle_seconds: float = 0.0
    """Seconds between this conversation's last model call and the start of this turn."""
    called: float | None = None
    """The time of the last model answer in this turn, by the monotonic clock."""
    standing: CompactionState | None = None
    """The compaction state of this conversation, read at the first model call of the turn."""
    patience: float | None = None
    """The longest retry delay of a failed model call, in seconds; None for no limit."""
    stands_in: bool = False
    """True if the model that is called next replaces a failed model."""
    failure: TurnFailed | None = None
    """A failure to raise before the next model call, set where LangGraph would swallow an exception."""

    @property
    def compaction_state(self) -> CompactionState:
        """The compaction state of this conversation; empty before the first model call of the turn."""
        return self.standing or CompactionState()

    def seconds_since_call(self, now: float) -> float:
        """Return the seconds between the last model call of this conversation and `now`, a monotonic time."""
        return self.idle_seconds if self.called is None else now - self.called

    @property
    def known_tools(self) -> list[str]:
        """The tool names for an error message, without the tool that searches the archive."""
        return [name for name in sorted(self.tools) if name != RECALL]

    @property
    def declarations(self) -> list[dict[str, Any]]:
        """The tool declarations for the model. Tools that are added later come last, to keep the prompt cache valid."""
        offered = [self.tools[name] for name in self.known_tools if name not in self.withheld]
        offered += [self.tools[name] for name in self.found]
        # There is an archive to search only after the first compaction.
        if RECALL in self.tools and self.standing is not None and self.standing.view is not None:
            offered.append(self.tools[RECALL])
        return [tool.declaration for tool in offered]
