"""The settings of an installation and their defaults. They do not change while the operator runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleetwright_api.address_space import Endpoint, Network
from fleetwright_api.model_catalog import Catalog
from fleetwright_operator.credentials.rotating_token import LEAD
from fleetwright_operator.credentials.rotation import Rotation

DEFAULT_AGENT_IMAGE = "docker.io/fleetwright/agent:0.1.0"
_AGENT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "192Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "512Mi", "ephemeral-storage": "1Gi"},
}
_POD_ANNOTATIONS = (
    "ad.datadoghq.com/*",
    "argocd.argoproj.io/*",
    "checksum/*",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "co.elastic.logs/*",
    "controller.kubernetes.io/pod-deletion-cost",
    "fluentbit.io/*",
    "instrumentation.opentelemetry.io/*",
    "karpenter.sh/do-not-disrupt",
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/restartedAt",
    "linkerd.io/inject",
    "prometheus.io/*",
    "reloader.stakater.com/*",
    "sidecar.istio.io/inject",
)
_DAY = 24 * 3600
_SERVER_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "256Mi", "ephemeral-storage": "1Gi"},
}


class Cilium(StrEnum):
    """The modes of CiliumNetworkPolicies for host names outside of the cluster."""

    OFF = "false"
    ON = "true"
    REMOVE = "remove"
    """Write none, and delete existing ones. Needs a permission that only installations with Cilium grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSelector:
    """Pods of one namespace with all of these labels; without labels, every pod in the namespace."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns:
    """The pods and addresses that answer DNS lookups."""

    pods: PodSelector = field(
        default_factory=lambda: PodSelector(namespace="kube-system", labels={"k8s-app": "kube-dns"})
    )
    ports: tuple[int, ...] = (53,)
    """The ports of the pods, which may differ from those of the Service."""
    ranges: tuple[Network, ...] = ()
    """Addresses of DNS caches on the nodes, which a policy cannot select as pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperPodDefaults:
    """What helper pods get if the Agent's or McpServer's `podTemplate` does not decide it.

    Helper pods are probes, preflights, workspaces, egress proxies and clones.
    """

    resources: Mapping[str, Any] = field(default_factory=dict)
    """Requests and limits that replace ours. They do not apply to a workspace's shell."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReference:
    """The installation's gateway. Its pods may reach every agent, and agents of a team may reach it."""

    url: str
    """The URL inside of the cluster, which is also the issuer of the gateway's tokens."""
    pods: PodSelector
    public_url: str = ""
    """The URL for callers outside of the cluster; empty means `url`."""
    port: int = 7880
    """The port of the pods."""
    keys_name: str = "fleetwright-gateway-keys"
    """The name of the Secret with the keys that sign tokens, in the Lease's namespace."""
    rotation: Rotation = field(default_factory=lambda: Rotation(ttl=30 * _DAY, overlap=25 * 3600))
    """The overlap is longer than the life of a delegation, which the previous key may have signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    agent_image: str = DEFAULT_AGENT_IMAGE
    pull_secrets: tuple[str, ...] = ()
    """For the agent image: Secrets that each namespace with Fleetwright objects must have."""
    cluster_domain: str = "cluster.local"
    namespaces: tuple[str, ...] = ()
    """The watched namespaces; empty means all."""
    catalog: Catalog = field(default_factory=Catalog)
    agent_resources: Mapping[str, Any] = field(default_factory=lambda: _AGENT_RESOURCES)
    server_resources: Mapping[str, Any] = field(default_factory=lambda: _SERVER_RESOURCES)
    helper_pods: HelperPodDefaults = field(default_factory=HelperPodDefaults)
    omit_ids: bool = False
    """True if pods get no user and group ids from us, because the cluster's admission sets them."""
    drain_seconds: int = 30
    token_rotation: Rotation = field(default_factory=lambda: Rotation(ttl=30 * _DAY, overlap=3 * _DAY))
    """The rotation of callers' tokens if an Agent does not set one."""
    token_lead_seconds: int = LEAD
    """Seconds for which agents accept a token before it is used. Longer than their pods take to re-read their files."""
    dns: Dns = field(default_factory=Dns)
    monitoring: PodSelector | None = None
    """The pods that may scrape agents; None means no pods."""
    operator: PodSelector | None = None
    """The operator's own pods, which read agents' :7871/status."""
    ip_families: frozenset[int] = frozenset({4, 6})
    """The IP families of pods.

    Ranges of the other family are left out of policies, because they open nothing and some network plugins reject them.
    """
    denied_ranges: tuple[Network, ...] = ()
    """Ranges that no agent may reach, whatever its spec says. The API server's public addresses are added to them."""
    stated_ranges: tuple[Network, ...] = ()
    """The part of `denied_ranges` that the installation sets.

    Agents receive only these, because the others may change at any time.
    """
    api_server: frozenset[Endpoint] = frozenset()
    """Private addresses of the API server. No spec may name such an address together with the API server's port."""
    deny_api_server: bool = True
    """True if the operator finds the API server's addresses and denies them to agents."""
    api_audiences: frozenset[str] = frozenset()
    """The audiences of tokens that the API server accepts, as far as the operator's own token names them."""
    pod_annotations: tuple[str, ...] = _POD_ANNOTATIONS
    """Annotations that a `podTemplate` may set, in addition to annotations without a domain.

    `domain/*` allows a whole domain.
    """
    cilium: Cilium = Cilium.OFF
    identity: str = "fleetwright-operator"
    """The identity of this process as a holder of the Lease."""
    lease_namespace: str = "fleetwright-system"
    lease_name: str = "fleetwright-operator"
    card_keys_name: str = "fleetwright-operator-card-keys"
    """The name of the Secret with the keys and of the ConfigMap with the key set, both in the Lease's namespace."""
    card_rotation: Rotation = field(default_factory=lambda: Rotation(ttl=90 * _DAY, overlap=_DAY))
    approval_retention_seconds: int = _DAY
    """Seconds for which an Approval is kept after nothing is left to do."""
    gateway: GatewayReference | None = None
    """None if the installation has no gateway."""
    key_set_url: str = ""
    """The URL at which the installation publishes the key set. Every signature names it."""
    workers: int = 24
    """How many objects are reconciled concurrently."""
    rollouts: int = 10
    """How many serving agents are rolled out to another revision concurrently."""
    probes: int = 4
    """How many pods probe Skills and McpServers concurrently. As many others clone the sources of workspaces."""
    resync_seconds: float = 180.0
    """Seconds between two lists of everything, for events that a watch missed."""
    discovery_seconds: float = 3600.0
    """Seconds between two discoveries of an McpServer's tools if nothing changed."""
    request_seconds: float = 15.0
    """The timeout of a request to the API server, in seconds."""
    stalled_seconds: float = 60.0
    """Seconds until an object that a user must fix is reconciled again, if no event comes first."""
    retry_cap_seconds: float = 120.0
    """The longest pause, in seconds, of an object whose reconciles fail."""
    ops_port: int = 8080

    @property
    def installation(self) -> str:
        """The id in the status of the objects that this installation manages: `<namespace>/<name>` of its Lease."""
        return f"{self.lease_namespace}/{self.lease_name}"

    @property
    def card_keys_place(self) -> tuple[str, str]:
        """(namespace, name)"""
        return (self.lease_namespace, self.card_keys_name)

    @property
    def gateway_keys_place(self) -> tuple[str, str] | None:
        """(namespace, name); None without a gateway"""
        return None if self.gateway is None else (self.lease_namespace, self.gateway.keys_name)
