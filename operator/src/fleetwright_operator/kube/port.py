"""The operator's interface to the Kubernetes API, verb by verb. The client uses HTTP; tests use a fake."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from fleetwright_operator.api import names

Object = dict[str, Any]
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the operator reads it. `kind` is its name in the cache; metadata-only views have their own names."""

    kind: str
    group: str
    version: str
    plural: str
    selector: str = ""
    """The label selector of lists and watches."""
    metadata_only: bool = False
    namespaced: bool = True
    field: str = ""
    """The field selector of lists and watches, such as one name, to which a permission can be limited."""

    if_unserved: str = ""
    """For an optional API: the remedy if the cluster does not serve it."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{middle}/{self.plural}" + (f"/{name}" if name else "")


def _ours(kind: str, plural: str) -> Resource:
    return Resource(kind=kind, group=names.GROUP, version=names.VERSION, plural=plural)


def _child(kind: str, group: str, plural: str, *, version: str = "v1") -> Resource:
    return Resource(kind=kind, group=group, version=version, plural=plural, selector=names.OWN_OBJECTS)


AGENTS = _ours(names.AGENT, "agents")
SKILLS = _ours(names.SKILL, "skills")
MCP_SERVERS = _ours(names.MCP_SERVER, "mcpservers")
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
# Their labels, for agents that allow callers by namespace labels.
NAMESPACES = Resource(
    kind="NamespaceMetadata", group="", version="v1", plural="namespaces", metadata_only=True, namespaced=False
)
EVENTS = Resource(kind="Event", group="", version="v1", plural="events")
LEASES = Resource(kind="Lease", group="coordination.k8s.io", version="v1", plural="leases")


def own_card_keys(name: str) -> Resource:
    """Return the resource of the one Secret that the operator reads as a whole without having labelled it."""
    return Resource(kind=names.CARD_KEYS, group="", version="v1", plural="secrets", field=f"metadata.name={name}")


def own_key_set(name: str) -> Resource:
    return Resource(kind=names.KEY_SET, group="", version="v1", plural="configmaps", field=f"metadata.name={name}")


WATCHED = (
    AGENTS,
    SKILLS,
    MCP_SERVERS,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
    SECRETS,
    CLAIMS,
    PODS,
    DEPLOYMENTS,
    POLICIES,
    SERVICES,
)
"""Kinds that are read as whole objects. kopf watches the first three, which users write."""

OBSERVED = (SECRET_METADATA, CONFIG_MAP_METADATA, NAMESPACES)
"""Kinds of which only metadata is read."""

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource for resource in (*WATCHED, *OBSERVED, CILIUM_POLICIES, LEASES, EVENTS)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[Kept]):
    items: list[Kept]
    resource_version: str


class Api(Protocol):
    """Every method raises an ApiError for an error response."""

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Kept], namespace: str | None = None
    ) -> Listing[Kept]:
        """Return what `keep` makes of each object that matches the resource's selector.

        The objects have apiVersion and kind. They are read in chunks, and only one chunk is in memory at a time.
        """

    async def get(self, resource: Resource, namespace: str, name: str) -> Object: ...

    async def create(self, resource: Resource, body: Object) -> Object: ...

    async def replace(self, resource: Resource, body: Object) -> Object:
        """Replace an object. Raises ConflictError if metadata.resourceVersion is not the current one."""

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        """Apply an object server-side as our field manager, with force.

        `metadata.resourceVersion` "1" means: only if it does not exist. Any other version means: only that version,
        else
        ConflictError. `metadata.uid` guards an update.
        """

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Send a JSON merge patch."""
        ...

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Send a JSON merge patch, and leave its fields without a field manager until they are applied."""
        ...

    async def force_apply(self, resource: Resource, body: Object) -> Object:
        """Overwrite an existing object with `body`, replacing whole lists, and then apply it.

        This is for the case that another manager's entry in one of our lists makes every apply invalid.
        """

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        """Delete exactly this version of this object. Raises ConflictError if it changed; succeeds if it is gone.

        Return the remaining object if it terminates gracefully, else an empty one.
        """
        ...

    async def read_log(self, namespace: str, pod: str, *, limit: int) -> str:
        """Return the last line that a pod's container logged, at most `limit` bytes of it."""
        ...

    def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (type, object) for every change, until the server closes the stream.

        Raises GoneError if the version is too old.
        """
