"""What a turn says while it runs: the one vocabulary between the protocol and the loop.

The server knows nothing of LangGraph and the loop knows nothing of A2A; both know only this file.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The next piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Reset:
    """What was streamed so far is void: the model call that spoke it failed and is made again."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    call_id: str
    name: str
    arguments: str
    """JSON, cut to a preview."""
    parent: str = ""
    """The call within which a sub-agent made this one."""


@dataclass(frozen=True, slots=True)
class ToolEnd:
    call_id: str
    name: str
    ok: bool
    result: str
    """Cut to a preview."""
    characters: int = 0
    """Of the whole result."""
    parent: str = ""
    kept: "asyncio.Future[None] | None" = field(default=None, compare=False, repr=False)
    """Over when the result is on disk; nothing where it need not be."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """One model could not answer, and the next that is declared goes on."""

    failed: str
    following: str
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call of the model failed and is made again after a while."""

    sentence: str
    """Why, for the caller."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call that a former process began for this task."""

    call_id: str


class Purpose(StrEnum):
    ANSWER = "answer"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Usage:
    """One model call's tokens; `input_tokens` includes the cached ones. No cost where no price is known."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal | None = None
    purpose: Purpose = Purpose.ANSWER
    estimated: bool = False
    """The provider did not report what the call used: it was cut, or the process ended during it."""


@dataclass(frozen=True, slots=True)
class PeerCost:
    """What a peer reported for the work it was given; apart from our own cost."""

    peer: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class CompactionStart:
    tokens_before: int


@dataclass(frozen=True, slots=True)
class CompactionEnd:
    outcome: str
    tokens_before: int
    tokens_after: int
    trigger: str = ""
    method: str = ""
    payback_calls: int | None = None
    """Further calls of the model until it has paid for itself; nothing where it never does."""
    cheapest_trigger: int | None = None
    """Tokens at which it would have cost least, for a conversation that grows like this one."""


class AskKind(StrEnum):
    QUESTION = "question"
    FORM = "form"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class Ask:
    """A person is needed before the turn can go on; said last, in place of `Done`."""

    kind: AskKind
    prompt: str
    """What the person reads."""
    payload: Mapping[str, Any]
    """The same for programs: hitl-v1."""
    identity: str = ""
    """Names this very ask; whoever answers says it back."""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer as data of the shape that its skill declares; said before `Done`."""

    data: Mapping[str, Any]
    media_type: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A skill that was learned in this task; said before `Done`."""

    skill: Mapping[str, Any]
    """As skill-v1 has it."""


@dataclass(frozen=True, slots=True)
class Done:
    """The whole answer, said once, last."""

    text: str
    cut: bool = False
    """It ends where it was as long as it may be, and not where the model had said all."""


Frame = (
    Text
    | Reasoning
    | Reset
    | ToolStart
    | ToolEnd
    | Called
    | Fallback
    | Waiting
    | Usage
    | PeerCost
    | CompactionStart
    | CompactionEnd
    | Ask
    | Result
    | Learned
    | Done
)


class TurnFailed(Exception):  # noqa: N818 - a2a and LangGraph name outcomes like this; it is not a defect
    """The turn ended without an answer.

    Args:
        reason: A word for counters and for programs, such as `model_unauthorized`.
        message: A sentence for the caller; it never holds anything internal.
        details: The same for programs, in JSON.
        refused: Nothing was done: the task was not taken on.
    """

    def __init__(
        self, reason: str, message: str, *, details: Mapping[str, Any] | None = None, refused: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person said to an ask."""

    ask: str
    """Its identity."""
    value: Any
    """Text, or JSON where the caller sent data."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Part of a message."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One message of one caller, and how far from the first caller it is."""

    owner: str
    context_id: str
    task_id: str
    text: str
    call_path: tuple[str, ...] = ()
    """`<namespace>/<name>` of every agent this request came through, first to last, for the loop guard."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    reply: Reply | None = None
    """The message answers an ask of the same task: the turn goes on exactly where it stopped."""
    late: "Callable[[Usage | PeerCost], None]" = field(default=lambda _: None, compare=False)
    """Hears what was used by work that was cancelled, once it has ended: nobody reads its frames any more."""
    left: "Callable[[], bool]" = field(default=lambda: False, compare=False)
    """Whether work that was cancelled goes on in the next process."""
    sub_agent: str = ""
    """Who works on a part of it just now, where that is not the agent itself."""
    opened: "Callable[[], None]" = field(default=lambda: None, compare=False)
    """Called when the turn starts, or resumes from the state that a former process stored."""
    restarted: bool = False
    """The process ended while this message was worked on: what was done is kept, and no tool call is made twice."""


@runtime_checkable
class Leaving(Protocol):
    """A turn that leaves something open in tasks, with others."""

    def over(self, owner: str, task_id: str) -> None:
        """The task goes on no more."""


class Turn(Protocol):
    """Runs one message to its end, or to an ask. Cancelling the iteration cancels the work.

    Raises:
        TurnFailed: No answer could be given; already classified.
    """

    def run(self, request: TurnRequest) -> AsyncGenerator[Frame, None]: ...

    async def aclose(self) -> None:
        """Lets go of connections and files; no turn runs any more."""
