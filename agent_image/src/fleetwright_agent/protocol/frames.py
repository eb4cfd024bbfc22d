"""The values that the A2A server and the agent loop exchange: the request of a turn, and the frames that it emits.

The server does not import LangGraph, and the loop does not import A2A. Both import this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from fleetwright_agent.protocol.context_changes import FilesRestored


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the streamed answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The next piece of the model's reasoning, which precedes the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamReset:
    """Invalidates the text streamed so far: the model call that produced it failed and is retried."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    call_id: str
    name: str
    arguments: str
    """JSON, truncated to a preview."""
    parent: str = ""
    """The id of the delegating call, if a sub-agent made this one."""


@dataclass(frozen=True, slots=True)
class ToolEnd:
    call_id: str
    name: str
    ok: bool
    result: str
    """The text of the result, truncated to a preview."""
    characters: int = 0
    """The length of the whole result."""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file for the caller, which a tool returns in addition to its text."""

    name: str
    media_type: str
    content: str | bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A piece of the output that a tool streams while it runs."""

    call_id: str
    name: str
    text: str
    parent: str = ""


@dataclass(frozen=True, slots=True)
class ToolArtifact:
    """An artifact of a tool call, emitted after its `ToolEnd`."""

    call_id: str
    name: str
    artifact: Artifact
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A model failed, and the turn continues with the next declared model."""

    failed: str
    following: str
    reason: str


@dataclass(frozen=True, slots=True)
class RetryWait:
    """A model call failed and is retried after a delay."""

    sentence: str
    """The reason, worded for the caller."""
    seconds: float


@dataclass(frozen=True, slots=True)
class EarlierToolCall:
    """A tool call that an earlier process started for this task."""

    call_id: str


class Purpose(StrEnum):
    ANSWER = "answer"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens and cost of one model call. Cached tokens count as input. Without a price, the cost is unset."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal | None = None
    purpose: Purpose = Purpose.ANSWER
    estimated: bool = False
    """True if the provider reported no usage, because the call was cancelled or the process ended during it."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The size of the last prompt of the agent itself, and the context window of the model."""

    model: str
    prompt_tokens: int
    window_tokens: int


@dataclass(frozen=True, slots=True)
class PeerCost:
    """The cost that a peer agent reported for its work; it is kept separate from this agent's own cost."""

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
    """Model calls until the compaction has paid for itself; None if it never does."""
    cheapest_trigger: int | None = None
    """The trigger, in tokens, with the lowest cost for a conversation that grows like this one."""


class InterruptKind(StrEnum):
    QUESTION = "question"
    FORM = "form"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class InterruptRequest:
    """A request for human input. It is the last frame of a turn that pauses, in place of `TurnDone`."""

    kind: InterruptKind
    prompt: str
    """The text that is shown to the person."""
    payload: Mapping[str, Any]
    """The same request in machine-readable form (hitl-v1)."""
    identity: str = ""
    """The id of this request; the reply repeats it."""
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    """The arguments of the call that a person approves; None for questions and forms."""
    call_id: str = ""
    """The provider's id of the call that a person approves."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer as data in the schema that its skill declares; emitted before `TurnDone`."""

    data: Mapping[str, Any]
    media_type: str


@dataclass(frozen=True, slots=True)
class SkillLearned:
    """A skill that the agent learned in this task; emitted before `TurnDone`."""

    skill: Mapping[str, Any]
    """The skill in the form of skill-v1."""


class CutReason(StrEnum):
    """Why an answer is not whole."""

    OUTPUT_LIMIT = "output-limit"
    """The model reached the limit of its output."""
    CONTENT_FILTER = "content-filter"
    """A content filter of the model's provider ended the answer."""


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The complete answer. It is the last frame and is emitted once."""

    text: str
    cut: CutReason | None = None
    """Why the answer ended before the model finished; None for a whole answer."""


Frame = (
    Text
    | Reasoning
    | StreamReset
    | ToolStart
    | ToolEnd
    | ToolOutput
    | ToolArtifact
    | EarlierToolCall
    | Fallback
    | RetryWait
    | Usage
    | ContextReport
    | PeerCost
    | CompactionStart
    | CompactionEnd
    | InterruptRequest
    | Result
    | FilesRestored
    | SkillLearned
    | TurnDone
)


class TurnFailed(Exception):  # noqa: N818 - a2a and LangGraph name outcomes like this; it is not a defect
    """The turn ended without an answer.

    Args:
        reason: A machine-readable reason, also the label of a metric, such as `model_unauthorized`.
        message: A sentence for the caller; it contains no internal details.
        details: Machine-readable details, as JSON.
        refused: True if the task was rejected before any work started.
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
class InterruptReply:
    """A person's reply to an `InterruptRequest`."""

    ask: str
    """The identity of the `InterruptRequest`."""
    value: Any
    """Text, or JSON if the caller sent data."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One message of one caller, with the chain of agents that forwarded it."""

    owner: str
    context_id: str
    task_id: str
    text: str
    call_path: tuple[str, ...] = ()
    """`<namespace>/<name>` of each agent that forwarded this request, first to last; used to detect call loops."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    pictures: tuple[Image, ...] = ()
    reply: InterruptReply | None = None
    """Set if the message answers an `InterruptRequest` of the same task; the turn then resumes where it paused."""
    sub_agent: str = ""
    """The name of the sub-agent that currently works on this request; empty for the agent itself."""
    prior_tokens: int = 0
    """The tokens that the task had used when it asked the question that the message answers."""
    restarted: bool = False
    """True if the process ended during this message. Finished work is kept, and no tool call is repeated."""
