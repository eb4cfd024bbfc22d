"""The configuration of the server: protocol versions, extensions, typed results, limits and push notifications."""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, field_validator

from fleetwright_a2a.outbound.policy.egress_policy import canonical_host
from fleetwright_agent.config.base import Part, checked_schema
from fleetwright_agent.config.callers import owner_key

_ROUNDS: Final = 100
_SPARE_ROUNDS: Final = 20


class DialectName(StrEnum):
    V1_0 = "1.0"
    V0_3 = "0.3"
    V0_1 = "0.1"


class CallerChoice(StrEnum):
    """The options that a request may set in its metadata."""

    MODEL = "Model"
    REASONING_EFFORT = "ReasoningEffort"


class TypedResult(Part):
    """The schema of the data that the answers of one skill of the card contain in addition to text."""

    skill: str = Field(min_length=1, max_length=128)
    output_schema: Mapping[str, Any]
    """JSON Schema of an object."""
    media_type: str = "application/json"

    @field_validator("output_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        checked_schema(value)
        if value.get("type", "object") != "object":
            raise ValueError("the schema of a result must have type object, or no type")
        return value


class Extensions(Part):
    """Data for callers in addition to the answer and its cost."""

    tool_calls: bool = True
    """Which tools are called, with previews of arguments and results."""
    reasoning: bool = False
    """The model's reasoning, if the provider returns it."""
    model_fallbacks: bool = False
    """Which model replaced another, and why. The status text mentions the replacement in any case."""
    context: bool = False
    """The size of the last prompt, the context window, and each compaction."""
    data_parts: bool = False
    """Sends the same data also as message parts, for callers that do not read metadata."""


class Limits(Part):
    max_turn_seconds: int = Field(default=600, gt=0)
    max_tool_calls: int = Field(default=50, gt=0)
    """Tool calls that one message may cause, calls of peers included."""
    max_model_calls: int | None = Field(default=None, gt=0)
    """Model calls that one message may cause; if unset, the limit follows from `maxToolCalls`."""
    max_turn_tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens that one message may use, those of sub-agents included; unlimited if unset."""
    max_repeated_calls: int = Field(default=6, ge=0)
    """The turn ends after this many identical tool calls with identical results; 0 disables the check.

    At half of this number, the model gets a warning.
    """
    max_empty_replies: int = Field(default=3, ge=0)
    """How often a model that returns nothing after tool results is prompted to continue; 0 for never."""
    max_mended_requests: int = Field(default=2, ge=0, le=2)
    """How often a prompt that a provider rejected is repaired and sent again; 0 for never."""
    max_request_bytes: int = Field(default=1024 * 1024, ge=1024)
    """The size of one request body; a larger one is rejected before it is read."""
    max_requests_per_minute: int | None = Field(default=None, gt=0)
    """Requests of one caller; unlimited if unset."""
    max_concurrent_turns: int = Field(default=4, gt=0)
    """Turns that run at the same time. Further tasks are accepted and wait for their turn.

    They start by the priority of their messages, and then in the order of acceptance.
    """
    high_priority_callers: tuple[str, ...] = ()
    """Callers whose messages may have the priority `high`, such as `agent:team/lead`.

    Other callers have at most `normal`. The names of persons are plain in the file, and owner keys after reading.
    """
    max_tasks_per_caller: int = Field(default=100, gt=0)
    """Tasks of one caller that run or wait for their turn at the same time."""
    max_waiting_tasks_per_caller: int = Field(default=1000, gt=0)
    """Tasks that wait for an answer of one caller. A caller that has this many cannot start another task."""
    max_streams_per_caller: int = Field(default=100, gt=0)
    """Streams of one caller that are open at the same time."""
    stall_seconds: int = Field(default=0, ge=0)
    """A turn fails after this many seconds without activity; 0 disables the check."""

    @field_validator("high_priority_callers")
    @classmethod
    def _owner_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(owner_key, value))

    @field_validator("max_repeated_calls")
    @classmethod
    def _repeats(cls, value: int) -> int:
        if value == 1:
            raise ValueError("use 0 to disable the check, or at least 2")
        return value

    @property
    def most_model_calls(self) -> int:
        return self.max_model_calls or max(_ROUNDS, self.max_tool_calls + _SPARE_ROUNDS)


class PushHost(Part):
    """A receiver of push notifications, given by its host name or IP address."""

    host: Annotated[str, AfterValidator(canonical_host)]
    port: int = Field(gt=0, lt=65536)


class Push(Part):
    """Push notifications. If hosts or ranges are named, only they are allowed; otherwise, all public addresses."""

    key_file: str
    """Path, below the configuration folder, of the keys that encrypt credentials in the task log; newest first."""
    allowed_hosts: tuple[PushHost, ...] = ()
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
