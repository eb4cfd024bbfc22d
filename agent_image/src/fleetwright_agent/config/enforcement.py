"""The configuration of tool policy and of the audit trail."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from fleetwright_agent.config.base import Part, checked_schema


class CallLimit(Part):
    """A limit on the calls of one tool, summed over all turns; `*` limits the calls of all tools together."""

    tool: str = Field(min_length=1, max_length=64)
    max: int = Field(gt=0, le=10_000)
    window_seconds: int = Field(gt=0)


class ArgumentRule(Part):
    """A JSON Schema for the arguments of a tool's calls, which must satisfy it and the tool's own schema."""

    tool: str = Field(min_length=1, max_length=64)
    json_schema: Mapping[str, Any] = Field(alias="schema")

    @field_validator("json_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        checked_schema(value)
        # Imported lazily: most agents have no schema.
        from fleetwright_agent.security.argument_schemas import schema_problem

        if why := schema_problem(value):
            raise ValueError(f"the schema is not usable: {why}")
        return value


class Enforcement(Part):
    """Restrictions that apply to every turn. Tools are named as the model sees them."""

    deny: tuple[str, ...] = ()
    arguments: tuple[ArgumentRule, ...] = ()
    limits: tuple[CallLimit, ...] = ()


class AuditMode(StrEnum):
    BEST_EFFORT = "BestEffort"
    """A line that cannot be written is counted, and the call runs."""
    REQUIRED = "Required"
    """A call runs only after its audit line is on disk."""
    OFF = "Off"


class Audit(Part):
    mode: AuditMode = AuditMode.BEST_EFFORT
    max_bytes: int = Field(default=50 * 1024 * 1024, ge=64 * 1024)
    """The size limit of the audit file; one rotated file of the same size is kept too."""
