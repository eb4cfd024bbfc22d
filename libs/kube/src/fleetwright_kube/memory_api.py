"""An in-memory implementation of the Kubernetes API, for tests and for local runs without a cluster.

It limits the number of writes, to stop write storms.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fleetwright_kube.errors import ConflictError, InvalidRequestError, NotFoundError
from fleetwright_kube.field_ownership import StoredObject, copy_json, merged, without_nulls
from fleetwright_kube.port import Kept, Listing, Object, Resource
from fleetwright_kube.scheme import Scheme


class WriteStorm(BaseException):
    """Raised when there are more writes than any test expects.

    No handler of a controller catches it, so it ends the worker.
    """


class MemoryApi:
    """An in-memory API server: server-side apply with field owners, preconditions and resource versions."""

    def __init__(
        self,
        scheme: Scheme,
        *,
        views: Mapping[str, str] | None = None,
        namespace: str = "default",
        created: str = "2026-03-01T12:00:00Z",
        write_cap: int = 5_000,
    ) -> None:
        """Args: `views` maps a kind of the cache to the kind of the stored objects, where the two differ.

        `namespace` is used if a call names an object without a namespace. `created` is the creation time of every
        object. `write_cap` is the number of allowed writes; every further write raises `WriteStorm`.
        """
        self._scheme = scheme
        self._views = views or {}
        self._namespace = namespace
        self._created = created
        self._asked = 0
        self._write_cap = write_cap
        self._objects: dict[tuple[str, str, str], StoredObject] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self.writes: list[str] = []
        """`verb Kind name` of every requested write."""
        self.gets: list[str] = []
        self.fault: Callable[[int, str], Exception | None] = lambda number, what: None
        """Returns the error for a write, given its number and text. A write with an error is not performed."""
        self.lose: Callable[[int, str], bool] = lambda number, what: False
        """Returns True if the write is performed but its response is lost."""
        self.listeners: list[Callable[[str, str, Object], None]] = []
        self.unserved: set[str] = set()
        """The kinds that this cluster does not serve."""
        self.unlisted: set[tuple[str, str, str]] = set()
        """The objects that lists omit, as a stale list would."""
        self.logs: dict[str, str] = {}
        """The last line of each pod's log, by the pod's name."""

    # Actions of users and controllers.

    def put(self, body: Object, *, manager: str = "somebody") -> Object:
        """Create an object, or replace the fields that the manager owns, and notify all listeners."""
        key = _key(body)
        stored = self._objects.get(key)
        if stored is None:
            stored = self._objects[key] = StoredObject(self._uid(body), created=self._created)
        stored.own(manager, {name: part for name, part in body.items() if name != "status"})
        if body.get("status"):
            stored.status = copy_json(body["status"])
        return self._changed(key, "MODIFIED")

    def edit(self, kind: str, name: str, patch: Object, *, namespace: str | None = None) -> Object:
        key = (kind, self._namespace if namespace is None else namespace, name)
        stored = self._objects[key]
        stored.own("an-editor", merged(stored.parts.get("an-editor", {}), patch))
        return self._changed(key, "MODIFIED")

    def remove(self, kind: str, name: str, *, namespace: str | None = None, silently: bool = False) -> None:
        """Delete an object and all objects that have no other owner, as the garbage collector would."""
        key = (kind, self._namespace if namespace is None else namespace, name)
        uid = self._objects[key].uid
        self._changed(key, "SILENT" if silently else "DELETED")
        del self._objects[key]
        for child, stored in list(self._objects.items()):
            owners = stored.body(child)["metadata"].get("ownerReferences", ())
            left = [owner for owner in owners if owner["uid"] != uid]
            if len(left) == len(owners):
                continue
            if not left:
                self.remove(child[0], child[2], namespace=child[1], silently=silently)
                continue
            for part in stored.parts.values():
                if "ownerReferences" in part.get("metadata", {}):
                    part["metadata"]["ownerReferences"] = left
            self._changed(child, "SILENT" if silently else "MODIFIED")

    def set_status(self, kind: str, name: str, status: Object, *, namespace: str | None = None) -> None:
        key = (kind, self._namespace if namespace is None else namespace, name)
        self._objects[key].status = status
        self._changed(key, "MODIFIED")

    def find(self, kind: str, name: str, *, namespace: str | None = None) -> Object:
        key = (kind, self._namespace if namespace is None else namespace, name)
        return self._objects[key].body(key)

    def has(self, kind: str, name: str, *, namespace: str | None = None) -> bool:
        return (kind, self._namespace if namespace is None else namespace, name) in self._objects

    def all(self, kind: str) -> list[Object]:
        return [stored.body(key) for key, stored in sorted(self._objects.items()) if key[0] == kind]

    def snapshot(self) -> dict[str, Any]:
        """Return every object without the values that differ from run to run."""
        return {"/".join(key): stored.essence(key) for key, stored in sorted(self._objects.items())}

    def versions(self) -> dict[str, str]:
        return {"/".join(key): stored.version for key, stored in sorted(self._objects.items())}

    # Requests of the controller under test.

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Kept], namespace: str | None = None
    ) -> Listing[Kept]:
        kind = self._kind(resource)
        self._guard_served(kind)
        items = [
            _seen(resource, stored.body(key))
            for key, stored in sorted(self._objects.items())
            if key[0] == kind
            and key not in self.unlisted
            and (namespace is None or key[1] == namespace)
            and (not resource.field or resource.field == f"metadata.name={key[2]}")
        ]
        ours = [item for item in items if not resource.selector or self._is_ours(item)]
        return Listing(items=[keep(item) for item in ours], resource_version=str(next(self._versions)))

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        kind = self._kind(resource)
        self.gets.append(f"{kind} {name}")
        if not self.has(kind, name, namespace=namespace):
            raise NotFoundError(f"{kind} {name} not found")
        return _seen(resource, self.find(kind, name, namespace=namespace))

    async def create(self, resource: Resource, body: Object) -> Object:
        if self.has(resource.kind, body["metadata"]["name"], namespace=body["metadata"]["namespace"]):
            raise ConflictError("exists")
        return self._write("create", {**body, "kind": resource.kind}, lambda: self.put(body))

    async def replace(self, resource: Resource, body: Object) -> Object:
        self._guard_version(body)
        return self._write("replace", body, lambda: self.put(body))

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        key = _key(body)
        self._guard_served(body["kind"])
        if subresource:
            self._guard_version(body)

            def write_status() -> Object:
                self._objects[key].status = copy_json(body["status"])
                return self._changed(key, "MODIFIED")

            return self._write(subresource, body, write_status)
        self._guard_apply(key, body["metadata"])

        def write() -> Object:
            stored = self._objects.setdefault(key, StoredObject(self._uid(body), created=self._created))
            before = stored.body(key) if stored.parts else None
            own = copy_json(body)
            for guard in ("uid", "resourceVersion"):
                own["metadata"].pop(guard, None)
            stored.own(self._scheme.field_manager, own)
            if before == stored.body(key):
                return before
            return self._changed(key, "MODIFIED")

        return self._write("apply", body, write)

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        key = (resource.kind, namespace, name)
        if key not in self._objects:
            raise NotFoundError("gone")
        if patch.get("metadata", {}).get("resourceVersion") not in {None, self._objects[key].version}:
            raise ConflictError("the object has been modified")
        metadata = {k: v for k, v in patch.get("metadata", {}).items() if k not in {"uid", "resourceVersion"}}
        clean = {**{key: part for key, part in patch.items() if key != "metadata"}, **_present("metadata", metadata)}

        def write() -> Object:
            stored = self._objects[key]
            stored.own("merge", without_nulls(merged(stored.parts.get("merge", {}), clean)), patch=clean)
            return self._changed(key, "MODIFIED")

        return self._write("merge", {"kind": resource.kind, "metadata": {"name": name}}, write)

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        return await self.merge(resource, namespace, name, patch)

    async def force_apply(self, resource: Resource, body: Object) -> Object:
        return await self.apply(resource, body)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        def write() -> Object:
            self.remove(resource.kind, name, namespace=namespace)
            return {}

        if self.has(resource.kind, name, namespace=namespace):
            self._write("delete", {"kind": resource.kind, "metadata": {"name": name}}, write)
        return {}

    async def read_log(self, namespace: str, pod: str, *, container: str, limit: int) -> str:
        self.gets.append(f"log {pod}")
        if not self.has("Pod", pod, namespace=namespace):
            raise NotFoundError(f"Pod {pod} not found")
        containers = self.find("Pod", pod, namespace=namespace)["spec"]["containers"]
        if container not in (each["name"] for each in containers):
            raise InvalidRequestError(f"container {container} is not valid for pod {pod}")
        if pod not in self.logs:
            raise InvalidRequestError("the pod has no log")
        return self.logs[pod][:limit]

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        await asyncio.Event().wait()
        yield "BOOKMARK", {}

    def _write(self, verb: str, body: Object, act: Callable[[], Object]) -> Object:
        what = f"{verb} {body['kind']} {body['metadata']['name']}"
        json.dumps(body, ensure_ascii=False).encode()  # Fails if the body could not be sent as JSON.
        number = len(self.writes)
        self.writes.append(what)
        self._asked += 1
        if self._asked > self._write_cap:
            raise WriteStorm(f"{self._asked} writes; the last ones: {self.writes[-10:]}")
        if fault := self.fault(number, what):
            raise fault
        answer = act()
        if self.lose(number, what):
            raise TimeoutError("the answer never came")
        return answer

    def _is_ours(self, body: Object) -> bool:
        return self._scheme.is_ours(body["metadata"].get("labels", {}))

    def _kind(self, resource: Resource) -> str:
        return self._views.get(resource.kind, resource.kind.removesuffix("Metadata"))

    def _guard_served(self, kind: str) -> None:
        if kind in self.unserved:
            raise NotFoundError("the server could not find the requested resource")

    def _guard_apply(self, key: tuple[str, str, str], metadata: Mapping[str, Any]) -> None:
        stored = self._objects.get(key)
        version = metadata.get("resourceVersion")
        if version == "1" and stored is not None:
            raise ConflictError("exists already")
        if version not in {None, "1"} and (stored is None or stored.version != version):
            raise ConflictError("the object has been modified")
        if "uid" in metadata and stored is None:
            raise ConflictError("gone")
        if "uid" in metadata and stored is not None and stored.uid != metadata["uid"]:
            raise InvalidRequestError("another uid")

    def _guard_version(self, body: Object) -> None:
        stored = self._objects.get(_key(body))
        if stored is None:
            raise NotFoundError("gone")
        if stored.version != body["metadata"]["resourceVersion"]:
            raise ConflictError("the object has been modified")

    def _uid(self, body: Object) -> str:
        return str(body["metadata"].get("uid") or f"u{next(self._uids)}")

    def _changed(self, key: tuple[str, str, str], event: str) -> Object:
        stored = self._objects[key]
        stored.version = str(next(self._versions))
        stored.renew_generation(key)
        body = stored.body(key)
        for listener in self.listeners if event != "SILENT" else ():
            listener(event, key[0], copy_json(body))
        return body


def _key(body: Object) -> tuple[str, str, str]:
    return (body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])


def _present(key: str, part: Object) -> Object:
    return {key: part} if part else {}


def _seen(resource: Resource, body: Object) -> Object:
    return {"kind": body["kind"], "metadata": body["metadata"]} if resource.metadata_only else copy_json(body)
