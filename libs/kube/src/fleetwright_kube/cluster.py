"""Reads objects from the cache and writes them through the API. Every response updates the cache."""

import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import Any

from fleetwright_kube.cache import Cache, Change, Id
from fleetwright_kube.cached_object import CachedObject, cached_object
from fleetwright_kube.deletion_history import DeletionHistory
from fleetwright_kube.drift import is_shared, with_hash
from fleetwright_kube.errors import (
    BlockedChildError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    OwnershipConflictError,
    RetryLaterError,
    UnfinishedDeletionError,
)
from fleetwright_kube.ownership import check_ours, controller_of, is_current
from fleetwright_kube.port import ABSENT, Api, Object, Resource
from fleetwright_kube.transitions import log_transitions
from fleetwright_kube.write_guard import STATUS, Write, WriteGuard

logger = logging.getLogger(__name__)
_DELETION_SECONDS = 3.0
"""A deletion usually ends within this time."""
_POD_DELETION_SECONDS = 60.0
"""The same for a pod, whose programs have time to end."""
_UNDECLARED = re.compile(r"\.status\.(\w+)[^:\s]*: field not declared in schema")


class Action(StrEnum):
    """The outcome of applying a child."""

    CREATED = "created"
    RECREATED = "recreated"
    """It was created, because another client had deleted it."""
    CONFIGURED = "configured"
    REVERTED = "reverted"
    """It was written although its manifest has not changed, because another client had changed it."""
    UNCHANGED = "unchanged"


class Cluster:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        *,
        on_change: Callable[[Change], None],
        on_write: Callable[[str, str], None],
        on_status: Callable[[CachedObject, Object], None],
        on_apply: Callable[[Object, Action], None] = lambda *_: None,
        may_write: Callable[[], bool] = lambda: True,
        write_guard: WriteGuard | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: `on_change` is called for every response that changed the cache.

        `on_write` is called after each write, with the verb and the kind.
        `on_status` is called after a status was written, with the object before the write and the new status.
        `on_apply` is called after each write of a child, with its manifest and the outcome.
        `may_write` is called before every write, because a process that was paused may have lost the Lease.
        `write_guard` delays writes that repeat.
        """
        self._api = api
        self.cache = cache
        self._scheme = cache.scheme
        self._on_change = on_change
        self._on_write = on_write
        self._on_status = on_status
        self._on_apply = on_apply
        self._may_write = may_write
        self._write_guard = write_guard or WriteGuard()
        self._clock = clock
        self._deletions = DeletionHistory()
        self.failing: set[str] = set()
        """The uids of owners for which the last reconcile could not write all children."""
        self._provided: set[str] = set()
        """The uids of owners for which children were written after the last write of the owner's status."""
        self._undeclared: defaultdict[str, set[str]] = defaultdict(set)
        """By kind: the fields of statuses that the CRD in this cluster lacks, because it is older than the operator."""

    def outdated(self, manifest: Object) -> Object | None:
        """Return the manifest with its hash if the child must be written; None if the child matches the manifest."""
        wanted = with_hash(self._scheme, manifest)
        entry = self._entry(wanted)
        return None if entry is not None and entry.is_ours and is_current(self._scheme, entry, wanted) else wanted

    async def apply(self, wanted: Object) -> Action:
        """Write the child so that it matches a manifest that `outdated` returned. Do nothing if it already matches.

        Raises:
            OwnershipConflictError: An object that Fleetwright does not manage has the child's name. It was not changed.
            RetryLaterError: The child is still being deleted, or exists already although it was not in the cache.
            BlockedChildError: The child has been in deletion for several seconds.
            ApiError: The write failed; InvalidRequestError if the same write will always fail.
        """
        entry = self._entry(wanted)
        if entry is None or not entry.is_ours:
            was_deleted = self._was_deleted_by_another_client(wanted)
            found = await self._create(wanted)
            if found is None:
                return self._note_applied(wanted, Action.RECREATED if was_deleted else Action.CREATED)
            if entry is None:
                # The manifest was built without this object, whose content (such as a token) may have to be preserved.
                await self._mark(found, wanted)
                raise RetryLaterError(0.1, f"{wanted['kind']} {found.name} already exists; the next reconcile decides")
            entry = found
        try:
            check_ours(self._scheme, entry, wanted)
        except UnfinishedDeletionError as unfinished:
            await self._raise_deletion_error(entry, wanted, unfinished)
        if is_current(self._scheme, entry, wanted):
            return Action.UNCHANGED
        await self._update(wanted, entry)
        annotation = self._scheme.hash_annotation
        is_same = entry.annotations.get(annotation) == wanted["metadata"]["annotations"][annotation]
        return self._note_applied(wanted, Action.REVERTED if is_same else Action.CONFIGURED)

    def _note_applied(self, wanted: Object, action: Action) -> Action:
        self._note_owners(wanted)
        self._on_apply(wanted, action)
        return action

    def _was_deleted_by_another_client(self, wanted: Object) -> bool:
        """Return whether another client has deleted this child of the same owner. Pods end by themselves."""
        metadata, owner = wanted["metadata"], controller_of(wanted)
        lost = self.cache.find_lost_child((wanted["kind"], metadata["namespace"], metadata["name"]))
        if lost is None or owner is None or wanted["kind"] == "Pod":
            return False
        uid, controller = lost
        return controller == owner["uid"] and not self._deletions.is_own(uid)

    async def _raise_deletion_error(
        self, entry: CachedObject, wanted: Object, unfinished: UnfinishedDeletionError
    ) -> None:
        """Raise the error for a child in deletion. After some time, a person must know what holds it.

        Raises:
            UnfinishedDeletionError: The deletion has just begun.
            BlockedChildError: It takes longer.
        """
        seconds = self._deletions.measure_seconds(entry.uid, now=self._clock())
        is_pod = wanted["kind"] == "Pod"
        if seconds < (_POD_DELETION_SECONDS if is_pod else _DELETION_SECONDS):
            raise unfinished
        resource = replace(self._scheme.resources[wanted["kind"]], metadata_only=True)
        try:
            body = await self._api.get(resource, entry.namespace, entry.name)
        except NotFoundError:
            raise unfinished from None
        without_finalizers = "the kubelet of its node" if is_pod else "the garbage collector"
        holders = ", ".join(body["metadata"].get("finalizers", ())) or without_finalizers
        raise BlockedChildError(
            "Terminating", f"{unfinished} and waits for {holders}. The operator writes it again as soon as it is gone"
        ) from None

    async def conflict(self, manifest: Object) -> OwnershipConflictError | None:
        """Return an error if an object that is not ours has the child's name, else None. Nothing is written."""
        entry = self._entry(manifest)
        try:
            if entry is None or not entry.is_ours:
                entry = await self._head(manifest)
            check_ours(self._scheme, entry, manifest)
        except OwnershipConflictError as foreign:
            return foreign
        except (NotFoundError, RetryLaterError):
            return None
        return None

    async def apply_data(self, resource: Resource, body: Object) -> Action:
        """Apply an object with data and without an owner. Changes that are not in the cache are not overwritten.

        Raises:
            ApiError: The write failed; ConflictError if the object differs from the cached version.
        """
        metadata = body["metadata"]
        entry = self.cache.get(resource.kind, metadata["namespace"], metadata["name"])
        if entry is not None and body["data"].items() <= entry.projection["data"].items():
            return Action.UNCHANGED
        version = ABSENT if entry is None else entry.resource_version
        verb = "create" if entry is None else "update"
        try:
            target = (resource.kind, metadata["namespace"], metadata["name"])
            versioned = {**body, "metadata": {**metadata, "resourceVersion": version}}
            await self._send(verb, target, body, lambda: self._api.apply(resource, versioned))
        except ConflictError:
            # The cached list was stale. Read the object now instead of waiting for the watch.
            self._learn(resource.kind, await self._api.get(resource, metadata["namespace"], metadata["name"]))
            raise
        return Action.CREATED if entry is None else Action.CONFIGURED

    async def write_status(self, entry: CachedObject, status: Object) -> None:
        """Write the status of an object, if it differs. A ConflictError means that the object must be reconciled again.

        After children were written, the status is written even if it is equal. The response then shows whether the
        owner was deleted. The watch event of the deletion may be late; until it arrives, the operator would recreate
        children that the garbage collector deletes.

        Fields that an older CRD lacks are left out.
        """
        status = {name: value for name, value in status.items() if name not in self._undeclared[entry.kind]}
        if entry.projection["status"] == status and entry.uid not in self._provided:
            return
        metadata = {"name": entry.name, "namespace": entry.namespace, "resourceVersion": entry.resource_version}
        resource = self._scheme.resources[entry.kind]
        body = {"apiVersion": resource.api_version, "kind": entry.kind, "metadata": metadata, "status": status}
        # This comes before the request, because a child that is written during the request needs another status write.
        self._provided.discard(entry.uid)
        try:
            await self._send(STATUS, entry.id, status, lambda: self._api.apply(resource, body, subresource="status"))
        except NotFoundError:
            self._forget(entry)
            return
        except InvalidRequestError as refused:
            self._provided.add(entry.uid)
            if not self._note_undeclared(entry.kind, status, refused.message):
                raise
            await self.write_status(entry, status)
            return
        except Exception:
            self._provided.add(entry.uid)
            raise
        log_transitions(entry, status)
        self._on_status(entry, status)

    def _note_undeclared(self, kind: str, status: Object, message: str) -> bool:
        """Remember the fields of a refused status that the CRD lacks. Return whether there are any."""
        fields = {found for found in _UNDECLARED.findall(message) if found in status}
        if fields:
            logger.warning(
                "the CRD is older than the operator: apply the CRDs of this version, and restart the operator",
                extra={"kind": kind, "fields": sorted(fields)},
            )
        self._undeclared[kind] |= fields
        return bool(fields)

    async def annotate(self, entry: CachedObject, annotations: dict[str, str]) -> None:
        patch = {"metadata": {"annotations": annotations, "uid": entry.uid}}
        resource = self._scheme.resources[entry.kind]
        # A pod that was deleted has a successor, which reads the current files.
        with suppress(NotFoundError):
            await self._send(
                "annotate", entry.id, patch, lambda: self._api.merge(resource, entry.namespace, entry.name, patch)
            )

    async def patch(self, entry: CachedObject, patch: Object) -> None:
        """Send a JSON merge patch for exactly this version of an object.

        Raises:
            ConflictError: The object differs from the cached version.
        """
        metadata = {"uid": entry.uid, "resourceVersion": entry.resource_version}
        resource, body = self._scheme.resources[entry.kind], {**patch, "metadata": metadata}
        try:
            await self._send(
                "patch", entry.id, patch, lambda: self._api.merge(resource, entry.namespace, entry.name, body)
            )
        except NotFoundError:
            self._forget(entry)

    async def apply_metadata(self, entry: CachedObject, metadata: Object) -> None:
        """Apply annotations and owner references to an object of a user. Those that were applied before are removed."""
        resource = self._scheme.resources[entry.kind]
        head = {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {**head, **metadata}}
        # If the object was deleted or replaced, the next reconcile decides.
        with suppress(NotFoundError, ConflictError):
            await self._send("update", entry.id, body, lambda: self._api.apply(resource, body))

    async def delete(self, entry: CachedObject) -> None:
        self._check_lease()
        resource, version = self._scheme.resources[entry.kind], entry.resource_version
        with self._write_guard.guard_write("delete", entry.id, {}):
            self._deletions.record_own(entry.uid)
            try:
                await self._api.delete(resource, entry.namespace, entry.name, uid=entry.uid, version=version)
            except (ForbiddenError, ConflictError, InvalidRequestError):
                self._deletions.withdraw_own(entry.uid)
                raise
        self._on_write("delete", entry.kind)
        self._forget(entry)

    async def delete_pod(self, pod: CachedObject) -> None:
        """Delete a pod. While it terminates, the pod stays in the cache, because it still needs its NetworkPolicy."""
        self._check_lease()
        resource, version = self._scheme.resources[pod.kind], pod.resource_version
        with self._write_guard.guard_write("delete", pod.id, {}):
            ending = await self._api.delete(resource, pod.namespace, pod.name, uid=pod.uid, version=version)
        self._on_write("delete", pod.kind)
        if ending:
            self._learn(pod.kind, ending)
        else:
            self._forget(pod)

    def list_delayed_writes(self, owner: CachedObject) -> list[Write]:
        """Return the writes that repeat in the reconciles of this object, although nothing has changed."""
        return self._write_guard.list_delayed(owner.id)

    async def read_log(self, pod: CachedObject, *, container: str, limit: int) -> str:
        """Return the last line that a container of the pod logged, at most `limit` bytes."""
        return await self._api.read_log(pod.namespace, pod.name, container=container, limit=limit)

    async def read(self, kind: str, namespace: str, name: str) -> Object:
        """Read a whole object with one GET, for content that the cache does not keep."""
        return await self._api.get(self._scheme.resources[kind], namespace, name)

    async def _create(self, wanted: Object) -> CachedObject | None:
        """Create the child and return None. If the object exists already and is ours, return it."""
        kind, metadata = wanted["kind"], wanted["metadata"]
        body = {**wanted, "metadata": {**metadata, "resourceVersion": ABSENT}}
        target, resource = (kind, metadata["namespace"], metadata["name"]), self._scheme.resources[kind]
        try:
            await self._send("create", target, wanted, lambda: self._api.apply(resource, body))
        except ConflictError:
            return await self._existing(wanted)
        return None

    async def _existing(self, wanted: Object) -> CachedObject:
        """Return the existing object if it is ours. The ownership check reads only the object's metadata."""
        kind, metadata = wanted["kind"], wanted["metadata"]
        place = (metadata["namespace"], metadata["name"])
        head = await self._head(wanted)
        check_ours(self._scheme, head, wanted)
        # For the cache, removed labels look like a deletion, so the cache would ignore this object. If it really is
        # deleted now, the next read or event shows the deletion.
        self.cache.recall(kind, head.uid)
        self._learn(kind, await self._api.get(self._scheme.resources[kind], *place))
        entry = self.cache.get(kind, *place)
        if entry is None:
            raise RetryLaterError(0.2, f"{kind} {place[1]} was replaced meanwhile")
        return entry

    async def _head(self, manifest: Object) -> CachedObject:
        """Read the metadata of the object that has the child's name."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        resource = replace(self._scheme.resources[kind], metadata_only=True)
        body = await self._api.get(resource, metadata["namespace"], metadata["name"])
        return cached_object(self._scheme, f"{kind}Metadata", body)

    async def _mark(self, entry: CachedObject, wanted: Object) -> None:
        """Restore the labels of an object that is ours, because without them its content is not used."""
        if entry.is_ours:
            return
        patch = {"metadata": {"labels": wanted["metadata"]["labels"], "uid": entry.uid}}
        resource = self._scheme.resources[entry.kind]
        await self._send(
            "label", entry.id, patch, lambda: self._api.merge_unowned(resource, entry.namespace, entry.name, patch)
        )

    async def _update(self, wanted: Object, entry: CachedObject) -> None:
        resource = self._scheme.resources[entry.kind]
        body = {**wanted, "metadata": {**wanted["metadata"], "uid": entry.uid}}
        await self._send("update", entry.id, wanted, lambda: self._apply_or_force(resource, body, entry))

    async def _apply_or_force(self, resource: Resource, body: Object, entry: CachedObject) -> Object:
        try:
            return await self._api.apply(resource, body)
        except (ConflictError, InvalidRequestError) as error:
            # If the object was deleted or replaced by another one, the cache was stale and the manifest may be valid.
            existing = await self._still(entry)
            if existing is None:
                raise RetryLaterError(0.2, f"{entry.kind} {entry.name} was replaced meanwhile") from error
            if isinstance(error, ConflictError) or not is_shared(self._scheme, existing):
                raise
            # An entry of another field manager in one of our lists may make the apply invalid.
            return await self._api.force_apply(resource, body)

    async def _still(self, entry: CachedObject) -> Object | None:
        """Read the object again. Return it if it still has the cached uid, else None."""
        try:
            existing = await self._api.get(self._scheme.resources[entry.kind], entry.namespace, entry.name)
        except NotFoundError:
            self._forget(entry)
            return None
        self._learn(entry.kind, existing)
        return existing if existing["metadata"]["uid"] == entry.uid else None

    def _entry(self, manifest: Object) -> CachedObject | None:
        metadata = manifest["metadata"]
        return self.cache.get(manifest["kind"], metadata["namespace"], metadata["name"])

    def _note_owners(self, manifest: Object) -> None:
        self._provided.update(owner["uid"] for owner in manifest["metadata"].get("ownerReferences", ()))

    def _check_lease(self) -> None:
        if not self._may_write():
            raise RetryLaterError(1.0, "this process does not hold the Lease any more")

    async def _send(
        self, verb: str, target: Id, body: Mapping[str, Any], request: Callable[[], Awaitable[Object]]
    ) -> None:
        """Send a write, unless it must wait, and store the response.

        Args: `body` is what the write changes, without preconditions, by which a repetition is recognised.
        """
        self._check_lease()
        with self._write_guard.guard_write(verb, target, body) as sent:
            answer = await request()
            sent.version = answer["metadata"]["resourceVersion"]
        self._on_write(verb, target[0])
        self._learn(target[0], answer, is_written=verb not in {STATUS, "annotate"})

    def _forget(self, entry: CachedObject) -> None:
        if change := self.cache.drop(*entry.id, uid=entry.uid):
            self._on_change(change)

    def _learn(self, kind: str, body: Object, *, is_written: bool = False) -> None:
        if change := self.cache.put(kind, body, is_written=is_written):
            self._on_change(change)
