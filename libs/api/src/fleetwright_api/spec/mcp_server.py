"""The typed view of an McpServer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fleetwright_api import names
from fleetwright_api.spec.custom_object import CustomObject, identity
from fleetwright_api.spec.decoder import decode, shared
from fleetwright_api.spec.fields import checked, one_of
from fleetwright_api.spec.proxied_address import ProxiedAddress
from fleetwright_api.spec.references import AuthorityReference, HeaderSource, ObjectReference
from fleetwright_api.spec.resources import ResourcesSpec
from fleetwright_api.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServerSpec(ProxiedAddress):
    """A server that the operator does not run."""

    url: str
    transport: str = one_of("StreamableHTTP", "SSE", default="StreamableHTTP")
    headers_from: tuple[HeaderSource, ...] = ()
    ca_secret_ref: AuthorityReference | None = None
    proxy_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSource:
    """A Secret or a ConfigMap whose keys become environment variables."""

    secret_ref: ObjectReference | None = None
    config_map_ref: ObjectReference | None = None
    prefix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """A server that the operator runs. `pod_template` stays a mapping, because it is a patch of a pod."""

    image: str = checked("")
    image_pull_secrets: tuple[ObjectReference, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    env_from: tuple[EnvironmentSource, ...] = ()
    transport: str = one_of("StreamableHTTP", "Stdio", default="StreamableHTTP")
    port: int = 8000
    path: str = "/mcp"
    resources: ResourcesSpec = ResourcesSpec()
    pod_template: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicySpec:
    """The tools of the server that agents may use. If `allow` is unset, all tools not in `deny` are allowed."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerSpec:
    """The spec of an McpServer. A valid spec has exactly one of `remote` and `workload`."""

    remote: RemoteServerSpec | None = None
    workload: WorkloadSpec | None = None
    tool_policy: ToolPolicySpec = ToolPolicySpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerView(CustomObject):
    kind: ClassVar[str] = names.MCP_SERVER
    spec: McpServerSpec


def parse_mcp_server(body: Mapping[str, Any]) -> McpServerView:
    """Return the view of an McpServer. Errors in its spec are listed in `problems`."""
    problems: list[Violation] = []
    spec = decode(McpServerSpec, body.get("spec"), "spec", problems)
    return McpServerView(**identity(body), status=shared(body.get("status") or {}), problems=tuple(problems), spec=spec)
