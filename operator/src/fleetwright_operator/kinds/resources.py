"""The resources that the operator reads and writes, with the selectors of its lists and watches."""

from collections.abc import Mapping
from dataclasses import replace

from fleetwright_api import names
from fleetwright_kube.port import EVENTS, LEASES, Resource


def _ours(kind: str, plural: str) -> Resource:
    return Resource(kind=kind, group=names.GROUP, version=names.VERSION, plural=plural)


def _child(kind: str, group: str, plural: str, *, version: str = "v1") -> Resource:
    return Resource(kind=kind, group=group, version=version, plural=plural, selector=names.OWN_OBJECTS)


AGENTS = _ours(names.AGENT, "agents")
SKILLS = _ours(names.SKILL, "skills")
MCP_SERVERS = _ours(names.MCP_SERVER, "mcpservers")
APPROVALS = replace(
    _ours(names.APPROVAL, "approvals"),
    if_unserved="apply crds/approval.yaml; without it, tool calls can be approved with A2A messages only",
)
SERVICE_ACCOUNTS = _child("ServiceAccount", "", "serviceaccounts")
CONFIG_MAPS = _child("ConfigMap", "", "configmaps")
SECRETS = _child("Secret", "", "secrets")
CLAIMS = _child("PersistentVolumeClaim", "", "persistentvolumeclaims")
PODS = _child("Pod", "", "pods")
DEPLOYMENTS = _child("Deployment", "apps", "deployments")
POLICIES = _child("NetworkPolicy", "networking.k8s.io", "networkpolicies")
CILIUM_POLICIES = replace(
    _child("CiliumNetworkPolicy", "cilium.io", "ciliumnetworkpolicies", version="v2"),
    if_unserved="install Cilium, or set network.cilium of the chart to false",
)
# No selector: an address in a spec may name any Service.
SERVICES = Resource(kind="Service", group="", version="v1", plural="services")
SECRET_METADATA = Resource(kind="SecretMetadata", group="", version="v1", plural="secrets", metadata_only=True)
CONFIG_MAP_METADATA = Resource(
    kind="ConfigMapMetadata", group="", version="v1", plural="configmaps", metadata_only=True
)
# Read so that helper pods are admissible.
LIMIT_RANGES = Resource(kind="LimitRange", group="", version="v1", plural="limitranges")
QUOTAS = Resource(kind="ResourceQuota", group="", version="v1", plural="resourcequotas")
# Read for their labels: agents may allow callers by namespace labels.
NAMESPACES = Resource(
    kind="NamespaceMetadata", group="", version="v1", plural="namespaces", metadata_only=True, namespaced=False
)
# Read for their owners: the operator sends its token only to pods below an agent's own Deployment.
REPLICA_SETS = Resource(
    kind="ReplicaSetMetadata",
    group="apps",
    version="v1",
    plural="replicasets",
    selector=names.OWN_OBJECTS,
    metadata_only=True,
)


def own_card_keys(name: str) -> Resource:
    """Return the resource of the one Secret that the operator reads as a whole without having labelled it."""
    return Resource(kind=names.CARD_KEYS, group="", version="v1", plural="secrets", field=f"metadata.name={name}")


def own_gateway_keys(name: str) -> Resource:
    return Resource(kind=names.GATEWAY_KEYS, group="", version="v1", plural="secrets", field=f"metadata.name={name}")


def own_key_set(name: str) -> Resource:
    return Resource(kind=names.KEY_SET, group="", version="v1", plural="configmaps", field=f"metadata.name={name}")


WATCHED = (
    AGENTS,
    SKILLS,
    MCP_SERVERS,
    APPROVALS,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
    SECRETS,
    CLAIMS,
    PODS,
    DEPLOYMENTS,
    POLICIES,
    SERVICES,
)
"""Kinds that are read as whole objects. kopf watches the first four, which users write."""

OBSERVED = (SECRET_METADATA, CONFIG_MAP_METADATA, NAMESPACES, REPLICA_SETS)
"""Kinds for which only metadata is read."""

NAMESPACE_RULES = (LIMIT_RANGES, QUOTAS)
"""Kinds that restrict the pods of their namespace. The operator never writes them."""

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource for resource in (*WATCHED, *OBSERVED, *NAMESPACE_RULES, CILIUM_POLICIES, LEASES, EVENTS)
}

PRUNED = frozenset({"CiliumNetworkPolicy", "Deployment", "NetworkPolicy", "Secret", "Service", "ServiceAccount"})
"""The kinds of children that are deleted when their owner no longer wants them.

ConfigMaps are excluded because their history is kept, volumes because they hold memory, and pods because they belong to
a Deployment.
"""
