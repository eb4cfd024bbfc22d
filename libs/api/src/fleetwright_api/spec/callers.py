"""The callers that an Agent allows, their credentials, and the peers that it may call."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import one_of
from fleetwright_api.spec.references import ObjectReference, RequiredLabels


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReference:
    """Another agent. If `namespace` is unset, it is in the namespace of the referring agent."""

    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerNamespacesSpec:
    from_: str = one_of("Same", "All", "Selector")
    selector: RequiredLabels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedCallersSpec:
    """The agents that may call this one. An empty list allows no agent."""

    agents: tuple[AgentReference, ...] = ()
    namespaces: CallerNamespacesSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRoleSpec:
    """The allowed actions of certain callers: those of a role, or a list. The runtime defines both."""

    callers: tuple[str, ...]
    role: str | None = one_of(
        "Unrestricted", "ReadOnly", "MemoryReadOnly", "NoMemory", "NoDelegation", "NoApproval", default=None
    )
    actions: tuple[str, ...] | None = one_of(
        "Delegate", "RequestApproval", "ReadMemory", "WriteMemory", "UseWriteTools", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSpec:
    """The callers that are not agents, and the lifetime of tokens.

    If the lifetime is unset, the installation's lifetime applies. If `clients` is unset, there is one client with the
    name `default`. If `allowed_origins` is unset, the runtime applies its default.
    """

    token_ttl: str | None = None
    overlap: str | None = None
    allowed_origins: tuple[str, ...] | None = None
    administrators: tuple[str, ...] = ()
    api_key: bool = False
    clients: tuple[ObjectReference, ...] | None = None
