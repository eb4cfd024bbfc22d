"""What the operator asks of the Kubernetes API, verb by verb. The adapter speaks HTTP; tests bring a twin."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from fleetwright_operator.api import names

Object = dict[str, Any]
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as we look at it. `kind` names it in the cache; metadata-only views have a name of their own."""

    kind: str
    group: str
    version: str
    plural: str
    selector: str = ""
    """Which objects are listed and watched."""
    metadata_only: bool = False
    namespaced: bool = True
    field: str = ""
    """Narrows lists and watches further, such as to one name, which a right can be limited to."""

    if_unserved: str = ""
    """Of an API that Kubernetes does not bring itself: what to do where the cluster has none."""

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
# Without a selector: an address in a spec may name anybody's Service.
SERVICES = Resource(kind="Service", group="", version="v1", plural="services")
SECRET_METADATA = Resource(kind="SecretMetadata", group="", version="v1", plural="secrets", metadata_only=True)
CONFIG_MAP_METADATA = Resource(
    kind="ConfigMapMetadata", group="", version="v1", plural="configmaps", metadata_only=True
)
# Their labels, for agents that invite callers by them.
NAMESPACES = Resource(
    kind="NamespaceMetadata", group="", version="v1", plural="namespaces", metadata_only=True, namespaced=False
)
EVENTS = Resource(kind="Event", group="", version="v1", plural="events")
LEASES = Resource(kind="Lease", group="coordination.k8s.io", version="v1", plural="leases")


def own_card_keys(name: str) -> Resource:
    """The one Secret of the operator's own namespace that it reads whole without having labelled it."""
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
"""Kinds that are looked at whole. kopf brings the events of the first three, which people write."""

OBSERVED = (SECRET_METADATA, CONFIG_MAP_METADATA, NAMESPACES)
"""Kinds of which only metadata is fetched."""

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource for resource in (*WATCHED, *OBSERVED, CILIUM_POLICIES, LEASES, EVENTS)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[Kept]):
    items: list[Kept]
    resource_version: str


class Api(Protocol):
    """Every method raises an ApiError for an answer that is no success."""

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Kept], namespace: str | None = None
    ) -> Listing[Kept]:
        """All objects that the resource's selector picks; of each, which has apiVersion and kind, what `keep` makes.

        They come in chunks, and no more than one of them is held whole.
        """

    async def get(self, resource: Resource, namespace: str, name: str) -> Object: ...

    async def create(self, resource: Resource, body: Object) -> Object: ...

    async def replace(self, resource: Resource, body: Object) -> Object:
        """Fails with Collision when metadata.resourceVersion is not the current one."""

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        """Server-side apply as our field manager, by force.

        `metadata.resourceVersion` "1" means: only if absent; any other: only that version (Collision otherwise).
        `metadata.uid` guards an update.
        """

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """A JSON merge patch."""
        ...

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """The same, and what it sets belongs to nobody until it is applied."""
        ...

    async def take_over(self, resource: Resource, body: Object) -> Object:
        """Makes an existing object be as `body` says, lists as a whole, and applies it.

        For where another manager's entry in one of our lists makes every apply invalid.
        """

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        """Deletes that very object as it was seen; Collision when it is another one by now, success when it is gone.

        Answers with what is left of it for a while, if any.
        """
        ...

    async def read_log(self, namespace: str, pod: str, *, limit: int) -> str:
        """The last line that a pod's container wrote, at most `limit` bytes of it."""
        ...

    def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """(type, object) of every change; ends when the server closes. Raises Expired when too old."""
