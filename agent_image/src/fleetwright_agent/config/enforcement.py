"""What no turn may do, and the trail of what turns did."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from fleetwright_agent.config.base import Part, checked_schema


class CallLimit(Part):
    """How often a tool may be called by all turns together; `*` is all tools together."""

    tool: str = Field(min_length=1, max_length=64)
    max: int = Field(gt=0, le=10_000)
    window_seconds: int = Field(gt=0)


class ArgumentRule(Part):
    """A call of the tool runs only with arguments that the schema allows, whatever the tool itself would take."""

    tool: str = Field(min_length=1, max_length=64)
    json_schema: Mapping[str, Any] = Field(alias="schema")

    @field_validator("json_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        checked_schema(value)
        # Imported where somebody needs it: most agents have no schema.
        from fleetwright_agent.security.argument_schemas import unusable

        if why := unusable(value):
            raise ValueError(f"no call could be held against it: {why}")
        return value


class Enforcement(Part):
    """What no turn may do, whatever the model wants (PA-080). Tools by the names that the model knows."""

    deny: tuple[str, ...] = ()
    arguments: tuple[ArgumentRule, ...] = ()
    limits: tuple[CallLimit, ...] = ()


class AuditMode(StrEnum):
    BEST_EFFORT = "BestEffort"
    """A line that cannot be written is counted, and the call runs."""
    REQUIRED = "Required"
    """A call runs only when the line that it begins is on disk."""
    OFF = "Off"


class Audit(Part):
    mode: AuditMode = AuditMode.BEST_EFFORT
    max_bytes: int = Field(default=50 * 1024 * 1024, ge=64 * 1024)
    """Of the file, and of the one before it, which is kept."""
