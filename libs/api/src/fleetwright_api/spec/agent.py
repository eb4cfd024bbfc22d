"""The typed view of an Agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fleetwright_api import names
from fleetwright_api.spec.a2a import A2ASpec
from fleetwright_api.spec.callers import AgentReference, AllowedCallersSpec, AuthSpec, CallerRoleSpec
from fleetwright_api.spec.compaction import CompactionSpec
from fleetwright_api.spec.custom_object import CustomObject, identity
from fleetwright_api.spec.decoder import decode, shared
from fleetwright_api.spec.fields import checked, one_of
from fleetwright_api.spec.fleet import FleetSpec, IdlePromptSpec, SleepSpec
from fleetwright_api.spec.limits import AuditSpec, BudgetSpec, LimitsSpec
from fleetwright_api.spec.memory import MemorySpec
from fleetwright_api.spec.model import ModelSpec
from fleetwright_api.spec.network import NetworkSpec
from fleetwright_api.spec.references import (
    AuthorityReference,
    HeaderSource,
    KeyReference,
    ObjectReference,
    RequiredLabels,
)
from fleetwright_api.spec.resources import ResourcesSpec
from fleetwright_api.spec.tools import (
    ApprovalsSpec,
    EnforcementSpec,
    PluginSpec,
    ServerUseSpec,
    SubAgentSpec,
    ToolSearchSpec,
)
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_api.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationSpec:
    organization: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsSource:
    config_map_key_ref: KeyReference | None = None
    secret_key_ref: KeyReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSpec:
    """The collector of traces. The runtime applies the default of `sample_percent`."""

    endpoint: str
    headers_from: tuple[HeaderSource, ...] = ()
    ca_secret_ref: AuthorityReference | None = None
    sample_percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySpec:
    otlp: CollectorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSpec:
    level: str | None = one_of("debug", "info", "warning", "error", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSpec:
    name: str
    input_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """The spec of an Agent. `pod_template` stays a mapping, because it is a patch of a pod."""

    description: str = ""
    version: str = "0.1.0"
    provider: OrganizationSpec | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    instructions: str | None = None
    instructions_from: InstructionsSource | None = None
    initial_prompt: str | None = None
    idle_prompt: IdlePromptSpec | None = None
    model: ModelSpec = checked(ModelSpec())
    skills: tuple[ObjectReference, ...] = ()
    skill_selector: RequiredLabels | None = None
    mcp_servers: tuple[ServerUseSpec, ...] = ()
    peers: tuple[AgentReference, ...] = ()
    allowed_callers: AllowedCallersSpec | None = None
    fleet: FleetSpec = FleetSpec()
    sleep: SleepSpec | None = None
    memory: MemorySpec = MemorySpec()
    compaction: CompactionSpec = CompactionSpec()
    plugins: tuple[PluginSpec, ...] = ()
    tool_search: ToolSearchSpec | None = None
    sub_agents: tuple[SubAgentSpec, ...] = ()
    limits: LimitsSpec = LimitsSpec()
    approvals: ApprovalsSpec = ApprovalsSpec()
    caller_roles: tuple[CallerRoleSpec, ...] = ()
    budgets: tuple[BudgetSpec, ...] = ()
    enforcement: EnforcementSpec = EnforcementSpec()
    audit: AuditSpec = AuditSpec()
    telemetry: TelemetrySpec | None = None
    ask_human: bool = False
    workspace: WorkspaceSpec | None = None
    auth: AuthSpec = AuthSpec()
    a2a: A2ASpec = A2ASpec()
    network: NetworkSpec = NetworkSpec()
    resources: ResourcesSpec = ResourcesSpec()
    logging: LoggingSpec = LoggingSpec()
    suspend: bool = False
    drain_seconds: int | None = None
    image: str | None = None
    executor: ExecutorSpec | None = None
    image_pull_secrets: tuple[ObjectReference, ...] = ()
    service_account_name: str | None = None
    pod_template: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView(CustomObject):
    kind: ClassVar[str] = names.AGENT
    spec: AgentSpec


def parse_agent(body: Mapping[str, Any]) -> AgentView:
    """Return the view of an Agent. Errors in its spec are listed in `problems`."""
    problems: list[Violation] = []
    spec = decode(AgentSpec, body.get("spec"), "spec", problems)
    return AgentView(**identity(body), status=shared(body.get("status") or {}), problems=tuple(problems), spec=spec)
