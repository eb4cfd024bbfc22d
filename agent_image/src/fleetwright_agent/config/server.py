"""How the agent serves: dialects, extensions, typed results, limits and push notifications."""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, field_validator

from fleetwright_agent.config.base import Part, checked_schema
from fleetwright_agent.security.egress import canonical_host

_ROUNDS: Final = 100
_SPARE_ROUNDS: Final = 20


class DialectName(StrEnum):
    V1_0 = "1.0"
    V0_3 = "0.3"
    V0_1 = "0.1"


class CallerChoice(StrEnum):
    """What a request may choose in its metadata."""

    MODEL = "Model"
    REASONING_EFFORT = "ReasoningEffort"


class TypedResult(Part):
    """The shape that answers to one skill of the card have as data, beside their text."""

    skill: str = Field(min_length=1, max_length=128)
    output_schema: Mapping[str, Any]
    """JSON Schema of an object."""
    media_type: str = "application/json"

    @field_validator("output_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        checked_schema(value)
        if value.get("type", "object") != "object":
            raise ValueError("a result is an object: its schema must have type object, or none")
        return value


class Extensions(Part):
    """What callers are told beside the answer and its cost."""

    tool_calls: bool = True
    """Which tools are called, with previews of arguments and results."""
    reasoning: bool = False
    """What the model thinks, where it says so."""
    model_fallbacks: bool = False
    """Which model took over from which, and why; that one did is told in words all the same."""
    data_parts: bool = False
    """Data also as parts, for callers that do not read metadata."""


class Limits(Part):
    max_turn_seconds: int = Field(default=600, gt=0)
    max_tool_calls: int = Field(default=50, gt=0)
    """Calls of tools, peers included, that one message may cause."""
    max_model_calls: int | None = Field(default=None, gt=0)
    """Replies of the model that one message may cause; without it as many as its calls of tools need."""
    max_repeated_calls: int = Field(default=6, ge=0)
    """The same call of a tool with the same result, so many times, ends the turn; at half of it the model is told.

    With 0 nobody looks for repeats.
    """
    max_empty_replies: int = Field(default=3, ge=0)
    """So often a model that says nothing to the results of its tools is asked to go on; with 0 never."""
    max_mended_requests: int = Field(default=2, ge=0, le=2)
    """So often a prompt that a provider refused is changed and sent again; with 0 never."""
    max_request_bytes: int = Field(default=1024 * 1024, ge=1024)
    """Of the body of one request; what is larger is refused before it is read."""
    max_requests_per_minute: int | None = Field(default=None, gt=0)
    """By one caller; without it as many as there are."""
    max_tasks_per_caller: int = Field(default=100, gt=0)
    """That run at once."""
    max_waiting_tasks_per_caller: int = Field(default=1000, gt=0)
    """That wait for its answer; with as many of them it begins no other."""
    max_streams_per_caller: int = Field(default=100, gt=0)
    """That are open at once."""
    stall_seconds: int = Field(default=0, ge=0)
    """A turn in which nothing happens for so long has failed; 0 measures nothing."""

    @field_validator("max_repeated_calls")
    @classmethod
    def _repeats(cls, value: int) -> int:
        if value == 1:
            raise ValueError("one call is no repeat: 0 looks for none, 2 is the least")
        return value

    @property
    def most_model_calls(self) -> int:
        return self.max_model_calls or max(_ROUNDS, self.max_tool_calls + _SPARE_ROUNDS)


class PushHost(Part):
    """A receiver by its name, or by its address as it is written."""

    host: Annotated[str, AfterValidator(canonical_host)]
    port: int = Field(gt=0, lt=65536)


class Push(Part):
    """Push notifications. Hosts and ranges that are named are all that is allowed; without any, all that is public."""

    key_file: str
    """Path below the configuration folder: the keys that seal credentials in the task log, the newest first."""
    allowed_hosts: tuple[PushHost, ...] = ()
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
