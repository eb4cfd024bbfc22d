"""What one turn carries through the loop: who asked, where frames go, which tools there are.

LangGraph hands it to every hook as the runtime's context. It dies with the turn; nothing here is stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from langchain.agents import AgentState

from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.frames import Frame, TurnFailed, TurnRequest


class View(TypedDict):
    """What a compaction left behind: messages up to and with `cut` are shown as `summary`.

    The messages themselves stay where they are; only what the model sees changes.
    """

    cut: str
    summary: str
    newest: str
    """Id of the newest message when this was made: older reports of usage measure another prompt."""


class TurnState(AgentState):
    """The stored state of a conversation beside its messages."""

    view: NotRequired[View | None]
    prior_sessions: NotRequired[str]
    task: NotRequired[str]
    """Whose turn the newest messages are of."""
    compaction_failures: NotRequired[int]
    """Since the last success or the last message of the user; three of them and it waits."""


@dataclass(slots=True)
class TurnContext:
    request: TurnRequest
    emit: Callable[[Frame], None]
    tools: Mapping[str, Tool]
    thread: str = ""
    """Under which the journal keeps this turn's calls."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """MCP servers that could not be asked for their tools, with the reason."""
    tool_calls: int = 0
    spoken: bool = False
    """Whether the model call that runs now has said anything to the caller."""
    silent: bool = False
    """What the model says now is not for the caller."""
    observed: bool = False
    failure: TurnFailed | None = None
    """Set where an exception would be swallowed; raised before the next model call."""
