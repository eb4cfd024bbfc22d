"""The tools of an Agent: MCP servers, plugins and sub-agents, with approvals, argument rules and call limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.spec.fields import one_of
from fleetwright_api.spec.model import NamedModelSpec

REVIEWERS: Final = "Reviewers"
OTHER_REVIEWERS: Final = "OtherReviewers"
"""Like `REVIEWERS`, but the person whose task asks for the approval may not decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListsSpec:
    """The tools of one server that an agent may use. Without `allow`, all tools that are not denied are allowed."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    require_approval: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUseSpec:
    """An McpServer that an agent uses."""

    name: str
    tools: ToolListsSpec = ToolListsSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """A plugin in the agent's image. `config` stays a mapping, because the plugin defines and validates it."""

    name: str
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchSpec:
    above: int
    always: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentSpec:
    """A sub-agent. The runtime applies the defaults."""

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...] | None = None
    model: NamedModelSpec | None = None
    max_model_calls: int | None = None
    timeout: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsSpec:
    """The tool calls that need approval by a person. The runtime applies the defaults."""

    tools: tuple[str, ...] | None = None
    by: str | None = one_of("Clients", "Callers", REVIEWERS, OTHER_REVIEWERS, default=None)
    bypass_callers: tuple[str, ...] | None = None
    """Clients and persons whose own tasks need no approval."""
    expiry: str | None = None
    escalate_after: str | None = None
    """The time after which an undecided Approval is escalated. The operator applies it, not the runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRuleSpec:
    """A rule for the arguments of a tool. `schema` stays a mapping, because it is a JSON Schema."""

    tool: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimitSpec:
    tool: str
    max: int
    window: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcementSpec:
    deny: tuple[str, ...] | None = None
    arguments: tuple[ArgumentRuleSpec, ...] | None = None
    limits: tuple[CallLimitSpec, ...] | None = None
