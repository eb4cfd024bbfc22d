"""The protocol settings of an Agent's A2A endpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.spec.fields import one_of

DIALECTS: Final = ("1.0", "0.3", "0.1")
"""The supported versions of the A2A protocol, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSpec:
    enabled: bool = True
    allowed_hosts: tuple[str, ...] = ()
    allowed_cidrs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSkillSpec:
    """A skill in the agent card. `output_schema` stays a mapping, because it is a JSON Schema."""

    id: str
    name: str | None = None
    description: str
    tags: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    output_media_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionsSpec:
    """The information that callers get in addition to the answer. The runtime applies the defaults."""

    tool_calls: bool | None = None
    reasoning: bool | None = None
    model_fallbacks: bool | None = None
    context: bool | None = None
    data_parts: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class A2ASpec:
    dialects: tuple[str, ...] = one_of(*DIALECTS, default=DIALECTS)
    caller_choices: tuple[str, ...] = one_of("Model", "ReasoningEffort", default=())
    public_card: str = one_of("Full", "Minimal", default="Full")
    public_url: str | None = None
    require_routable_url: bool = False
    push: PushSpec | None = None
    skills: tuple[DeclaredSkillSpec, ...] = ()
    extensions: ExtensionsSpec = ExtensionsSpec()
