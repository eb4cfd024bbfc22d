"""The rules that an Agent adds to its generated NetworkPolicy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetwright_api.spec.fields import one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class IpBlock:
    cidr: str
    except_: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalLabels:
    """A selector of a NetworkPolicy. Without labels, it selects everything."""

    match_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPeerSpec:
    """Pods, selected by their labels and by the labels of their namespace, or a range of addresses."""

    pod_selector: OptionalLabels | None = None
    namespace_selector: OptionalLabels | None = None
    ip_block: IpBlock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    protocol: str = one_of("TCP", "UDP", default="TCP")
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedIngressSpec:
    from_: NetworkPeerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedEgressSpec:
    to: NetworkPeerSpec
    ports: tuple[PortSpec, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    policy: str = one_of("Managed", "None", default="Managed")
    ingress: tuple[AddedIngressSpec, ...] = ()
    egress: tuple[AddedEgressSpec, ...] = ()
