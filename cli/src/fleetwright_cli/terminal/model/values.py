"""The values that a conversation shows: tool calls, questions, costs, todos and the use of the context window. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final


class TaskPhase(StrEnum):
    """The states of an A2A task."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


ENDED: Final = frozenset({TaskPhase.COMPLETED, TaskPhase.FAILED, TaskPhase.CANCELED, TaskPhase.REJECTED})
WAITING: Final = frozenset({TaskPhase.INPUT_REQUIRED, TaskPhase.AUTH_REQUIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCard:
    """One tool call. The wire carries previews of arguments and results, and the length of the whole result."""

    call_id: str
    name: str
    task_id: str = ""
    number: int = 0
    """The number with which the user opens the output. It counts the calls of the conversation."""
    arguments: str = ""
    output: str = ""
    """The output that the tool has streamed, limited to its end."""
    result: str = ""
    ok: bool | None = None
    """None while the call runs, or if its end was lost with the connection."""
    characters: int = 0
    parent: str = ""
    started: float = 0.0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class OfferedGrant:
    key: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAsk:
    """A question, form or approval for which a task waits."""

    task_id: str
    identity: str
    """The id of the ask; empty if the agent does not support the extension ask/v1."""
    kind: str
    """`question`, `form` or `approval`."""
    prompt: str
    tool: str = ""
    title: str = ""
    detail: str = ""
    expires: str = ""
    grants: tuple[OfferedGrant, ...] = ()
    reviewed: bool = False
    """True if other people decide, so that an answer of this client does not count."""
    arguments: Mapping[str, Any] | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    """The steps of a form."""

    @property
    def is_approval(self) -> bool:
        return self.kind == "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """The usage of one task, or of several."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = None
    """None if a call has no price."""
    model_calls: int = 0
    tool_calls: int = 0
    models: tuple[str, ...] = ()
    duration_ms: int = 0

    def plus(self, other: "TaskCost") -> "TaskCost":
        known = [cost.usd for cost in (self, other) if cost.usd is not None]
        return TaskCost(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=sum(known, Decimal(0)) if known else None,
            model_calls=self.model_calls + other.model_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            models=tuple(dict.fromkeys((*self.models, *other.models))),
            duration_ms=self.duration_ms + other.duration_ms,
        )


@dataclass(frozen=True, slots=True)
class TodoItem:
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class ContextUse:
    """The model and the share of its context window that the last prompt used. Unknown values are empty."""

    model: str = ""
    prompt_tokens: int = 0
    window_tokens: int = 0
    compactions: int = 0
    compacting: bool = False
    """True in a report that a compaction starts or ends."""

    def after(self, earlier: "ContextUse | None") -> "ContextUse":
        """Return this report with the sizes of an earlier one, if this one has none."""
        if earlier is None or self.window_tokens:
            return self
        return replace(
            self, model=earlier.model, prompt_tokens=earlier.prompt_tokens, window_tokens=earlier.window_tokens
        )


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that a tool returned."""

    artifact_id: str
    name: str
    media_type: str
    text: str = ""
    size: int = 0
    tool: str = ""
