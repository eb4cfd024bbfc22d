"""The interface of a tool. A tool decides whether a call may run, streams output, and returns text and artifacts.

A `ToolProvider` is one source of tools. `tools/registry.py` collects the tools of all providers for a turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fleetwright_agent.protocol.frames import Artifact, Frame, InterruptKind, TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction


class ToolError(Exception):
    """The call failed. The model reads the message, and may repeat it to the caller."""

    outcome = "error"
    """The label of the metric."""


class ToolDeclined(ToolError):  # noqa: N818 - describes the outcome of the call
    """A person declined the call."""

    outcome = "declined"


class ToolExpired(ToolError):  # noqa: N818 - describes the outcome of the call
    """The approval of the call expired without a decision."""

    outcome = "expired"


class ToolBlocked(ToolError):  # noqa: N818 - describes the outcome of the call
    """The agent's policy, or the tool itself, does not allow the call."""

    outcome = "blocked"


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission that a person may give in reply to an `Ask`. It holds for one tool in one conversation."""

    key: str
    """Identifies what is permitted, for example the path of a file. The tool interprets it."""
    title: str
    """The permission in words, for the person, such as "more edits of notes.txt"."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The call runs."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call does not run. The model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The call runs only after a person has approved it, or has answered the question."""

    question: str = ""
    """The question for the person. An approval without a question shows the tool and its arguments."""
    preview: str = ""
    """The effect of the call, such as a diff. Without a preview, the person sees the arguments."""
    grants: tuple[Grant, ...] = ()
    """The grants that the person may give, narrowest first. A later call that a given grant covers does not ask."""
    state: str = ""
    """Identifies what the preview describes, such as the digest of a file. The tool receives it with the approval."""
    kind: InterruptKind = InterruptKind.APPROVAL
    """The reply to a question or form is not a permission. The tool receives it as `ToolCall.reply`."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """A question or form in machine-readable form (hitl-v1); approvals do not use this field."""


Decision = Allow | Ask | Deny


def strictest(one: Decision, other: Decision) -> Decision:
    """Return the stricter decision. Two approvals become one, with the grants that both offer."""
    if isinstance(one, Deny) or isinstance(other, Allow):
        return one
    if isinstance(other, Deny) or isinstance(one, Allow):
        return other
    if InterruptKind.APPROVAL is not one.kind or InterruptKind.APPROVAL is not other.kind:
        return one if one.kind is not InterruptKind.APPROVAL else other
    shared = tuple(grant for grant in one.grants if grant in other.grants)
    return Ask(one.question or other.question, one.preview or other.preview, shared, one.state or other.state)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call that returns more than text."""

    text: str
    """The part that the model reads."""
    artifacts: tuple[Artifact, ...] = ()
    """Files for the caller of the turn, which the model does not read."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in one turn. The arguments are already validated against the tool's schema."""

    arguments: Mapping[str, Any]
    turn: TurnRequest
    emit: Callable[[Frame], None]
    reply: Any = None
    """A person's reply to the tool's question."""
    key: str = ""
    """Identifies this call within its turn. The key is the same after a restart."""
    identity: str = ""
    """The provider's id of the call, which the caller sees too."""
    write: Callable[[str], None] = lambda _: None
    """Streams a piece of output to the caller while the call runs. It must be called on the event loop."""
    approved: str | None = None
    """The question that a person has approved, also by a grant. None if the call runs without an approval."""
    approved_state: str = ""
    """The `Ask.state` of this question."""


async def allow(_: ToolCall) -> Decision:
    """Allow every call."""
    return Allow()


def never(_: Mapping[str, Any]) -> bool:
    """Return False for all arguments."""
    return False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` returns its result or raises `ToolError`; the text is data, never instructions."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[ToolCall], Awaitable[str | ToolResult]]
    decide: Callable[[ToolCall], Awaitable[Decision]] = allow
    """Decides whether a call may run. It must have no side effects, because one call may need several decisions."""
    repeatable: bool = False
    """True if the tool has no side effects, so that a call may be repeated after a restart."""
    happens_once: Callable[[Mapping[str, Any]], bool] = never
    """Returns whether a call with these arguments takes effect once even if it is repeated with the same key."""
    deferrable: bool = False
    """True if the model has to search for this tool when the agent has many tools."""
    action: CallerAction | None = None
    """The action that the role of a caller must allow before the tool is called; None if every caller may use it."""

    @property
    def declaration(self) -> dict[str, Any]:
        """The declaration in a chat-completions request."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }


@dataclass(slots=True)
class TurnUsage:
    """The tool calls and the tokens that one message of the caller has caused, including those of sub-agents."""

    tool_calls: int = 0
    tokens: int = 0
    """Input and output tokens, as charged."""


class ToolContext(Protocol):
    """The part of a turn that providers of tools may use."""

    @property
    def request(self) -> TurnRequest: ...

    @property
    def thread(self) -> str:
        """The id under which the calls of this turn are stored."""
        ...

    @property
    def emit(self) -> Callable[[Frame], None]: ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools of the turn, once every provider has returned its tools."""
        ...

    @property
    def unreachable(self) -> MutableMapping[str, str]:
        """Servers whose tools could not be listed, each with the reason. The prompt names them."""
        ...

    @property
    def hold(self) -> Callable[["asyncio.Future[None]"], None]:
        """Delays all later frames until the write that the future represents is on disk."""
        ...

    @property
    def usage(self) -> TurnUsage: ...


class ToolProvider(Protocol):
    """One source of tools."""

    @property
    def name(self) -> str:
        """The name in logs."""
        ...

    async def tools(self, context: ToolContext) -> Sequence[Tool]:
        """Return the tools for this turn; none if the configuration or the caller does not allow them."""
        ...

    async def close(self) -> None:
        """Close connections and files. It is called after the last turn; a second call has no effect."""
        ...
