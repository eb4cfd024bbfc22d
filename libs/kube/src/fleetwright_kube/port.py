"""The interface to the Kubernetes API, with a method for each verb.

`http_client` implements it; `memory_api` is an implementation without a cluster.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Object = dict[str, Any]
Kept = TypeVar("Kept")
ABSENT = "1"
"""With this resourceVersion, an apply either creates the object or fails with ConflictError.

A contract test verifies this behaviour.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind that a controller reads. `kind` is its name in the cache; a metadata-only view has a separate name."""

    kind: str
    group: str
    version: str
    plural: str
    selector: str = ""
    """The label selector of lists and watches."""
    metadata_only: bool = False
    namespaced: bool = True
    field: str = ""
    """The field selector of lists and watches.

    With the selector `metadata.name=NAME`, RBAC can limit the permission to the object of this name.
    """

    if_unserved: str = ""
    """For an optional API, the message with the remedy if the cluster does not serve it."""

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
        """List the objects that match the resource's selectors, and return the result of `keep` for each.

        The objects passed to `keep` have apiVersion and kind. The list is read in chunks; one chunk is in memory at a
        time.
        """

    async def get(self, resource: Resource, namespace: str, name: str) -> Object: ...

    async def create(self, resource: Resource, body: Object) -> Object: ...

    async def replace(self, resource: Resource, body: Object) -> Object:
        """Replace an object. Raises ConflictError if metadata.resourceVersion is not the current one."""

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        """Apply an object server-side as our field manager, with force.

        With `metadata.resourceVersion` "1", the object is written only if it does not exist. With another version, it
        is written only if this is its current version. Otherwise, ConflictError is raised. With `metadata.uid`, only
        the object with this uid is updated.
        """

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Send a JSON merge patch."""
        ...

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Send a JSON merge patch, and then remove our field manager from the patched fields.

        The fields have no manager until they are applied. With `merge`, our field manager would keep them.
        """
        ...

    async def force_apply(self, resource: Resource, body: Object) -> Object:
        """Overwrite an existing object with `body`, replacing whole lists, and then apply it.

        This is necessary if an entry of another manager in one of our lists makes every apply invalid.
        """

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        """Delete exactly this version of this object. Succeed if the object does not exist.

        Return the object if it terminates gracefully, else an empty object. Raises ConflictError if it has changed.
        """
        ...

    async def read_log(self, namespace: str, pod: str, *, container: str, limit: int) -> str:
        """Return the last line of the log of a pod's container, at most `limit` bytes."""
        ...

    def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (type, object) for every change, until the server closes the stream.

        Raises GoneError if the version is too old.
        """
