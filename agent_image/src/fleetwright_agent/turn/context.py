"""What one turn carries through the loop: who asked, where frames go, which tools there are.

LangGraph hands it to every hook as the runtime's context. It dies with the turn; nothing here is stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required

from langchain.agents import AgentState
from langchain_core.messages import AnyMessage

from fleetwright_agent.protocol.frames import Frame, TurnFailed, TurnRequest
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.compaction.view import Standing
from fleetwright_agent.turn.history_update import grown


class TurnState(AgentState):
    """The stored state of a conversation."""

    messages: Required[Annotated[list[AnyMessage], grown]]
    prior_sessions: NotRequired[str]
    task: NotRequired[str]
    """Whose turn the newest messages are of."""


@dataclass(slots=True)
class Tally:
    """Calls of tools that one message of the caller has caused, those of its sub-agents among them."""

    tool_calls: int = 0


@dataclass(slots=True)
class TurnContext:
    request: TurnRequest
    emit: Callable[[Frame], None]
    tools: Mapping[str, Tool]
    thread: str = ""
    """Under which the journal keeps this turn's calls."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """MCP servers that could not be asked for their tools, with the reason."""
    withheld: frozenset[str] = frozenset()
    """Names of tools that the model is not shown."""
    found: tuple[str, ...] = ()
    """Of those, the ones that it is shown because it has looked for them."""
    recall: Tool | None = None
    """Offered once there is something to recall."""
    remembered: str | None = None
    """Facts for this turn, as the model reads them; not looked for yet where there is nothing here."""
    tally: Tally = field(default_factory=Tally)
    attended: bool = True
    """Whether a person may be asked; a sub-agent asks nobody."""
    spoken: bool = False
    """Whether the model call that runs now has said anything to the caller."""
    silent: bool = False
    """What the model says now is not for the caller."""
    observed: bool = False
    calls_since_summary: int | None = None
    """Model calls since the last summary that this turn made; None before the first."""
    fresh: bool = True
    """A new message of the caller, and not a turn that goes on."""
    idle_seconds: float = 0.0
    """Before this turn: for so long nobody has sent this conversation to the provider."""
    called: float | None = None
    """When the model answered last in this turn, by the monotonic clock."""
    standing: Standing | None = None
    """Of this conversation's compaction; read at the turn's first call."""
    patience: float | None = None
    """A failed call of the model waits no longer than this before it is tried again; None waits as it is told to."""
    stands_in: bool = False
    """Whoever is asked now does what another model could not."""
    failure: TurnFailed | None = None
    """Set where an exception would be swallowed; raised before the next model call."""

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, declared or not."""
        return self.tools.get(name) or (self.recall if self.recall and self.recall.name == name else None)

    @property
    def declarations(self) -> list[dict[str, Any]]:
        """What the model is told of the tools; what may come later stands last."""
        offered = [tool for name, tool in sorted(self.tools.items()) if name not in self.withheld]
        offered += [self.tools[name] for name in self.found]
        if self.recall is not None and self.standing is not None and self.standing.view is not None:
            offered.append(self.recall)
        return [tool.declaration for tool in offered]
