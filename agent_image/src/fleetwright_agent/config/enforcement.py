"""The configuration of tool policy, of the roles of callers, and of the audit trail."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from fleetwright_agent.config.base import Part, checked_schema
from fleetwright_agent.security.caller_roles import PATTERN, ROLES, CallerAction, CallerPatterns, Role, compile_patterns


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


class CallerRoleEntry(Part):
    """The allowed actions of certain callers: those of a role, or a list."""

    callers: tuple[Annotated[str, Field(max_length=512, pattern=PATTERN)], ...] = Field(min_length=1, max_length=100)
    """`client:NAME`, `agent:NAMESPACE/NAME` or `user:NAME`, also with `*` as the end of the name, or only `*`."""
    role: Role | None = None
    actions: frozenset[CallerAction] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.role is None) == (self.actions is None):
            raise ValueError("exactly one of role and actions is needed")
        return self

    @cached_property
    def patterns(self) -> CallerPatterns:
        return compile_patterns(self.callers)

    @property
    def allowed(self) -> frozenset[CallerAction]:
        return ROLES[self.role] if self.role is not None else self.actions or frozenset()


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
