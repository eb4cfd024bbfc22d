"""The interface to the Kubernetes API, verb by verb. `http_client` implements it, and `memory_api` does for tests."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Object = dict[str, Any]
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as a controller reads it. `kind` is its name in the cache; metadata-only views have their own names."""

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


EVENTS = Resource(kind="Event", group="", version="v1", plural="events")
LEASES = Resource(kind="Lease", group="coordination.k8s.io", version="v1", plural="leases")


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
        else ConflictError. `metadata.uid` guards an update.
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
