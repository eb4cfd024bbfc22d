"""Reconciles one object: read, decide, write, report. Level-triggered: the result does not depend on which event came.

    observe ─▶ validate ─▶ credentials ─▶ build ─▶ apply ─▶ status

The steps of each kind are in `agent`, `skill`, `mcp_server`, `approval` and `key_ring`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from fleetwright_api import names
from fleetwright_api.spec.decoder import MALFORMED
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.write_guard import MEMORY_SECONDS, WriteGuard, WriteLoopError
from fleetwright_operator.kinds.views import view_of
from fleetwright_operator.observe.index_keys import UNREADABLE, Key
from fleetwright_operator.observe.installation import is_managed_elsewhere
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.write_loop import add_write_loop

logger = logging.getLogger(__name__)


class KindReconciler(Protocol):
    """Reconciles the objects of one kind."""

    async def __call__(self, entry: CachedObject) -> ReconcileResult: ...

    def forget(self, key: Key) -> None:
        """Drop what is kept in memory about a deleted object."""


class Reconciler:
    def __init__(
        self,
        cluster: Cluster,
        *,
        now: Callable[[], str],
        key_rings: Mapping[str, Callable[[], Awaitable[ReconcileResult]]],
        kinds: Mapping[str, KindReconciler],
        approvals: Callable[[Key], Awaitable[ReconcileResult]],
        write_guard: WriteGuard,
        settings: Settings,
        on_conflict: Callable[[CachedObject], None],
    ) -> None:
        """Args:
        approvals: Also gets the keys of Approvals that do not exist, because the operator creates them.
        on_conflict: Is called with each object that another installation manages.
        """
        self._cluster = cluster
        self._now = now
        self._key_rings = key_rings
        self._kinds = kinds
        self._approvals = approvals
        self._write_guard = write_guard
        self._settings = settings
        self._on_conflict = on_conflict

    async def __call__(self, key: Key) -> ReconcileResult:
        """Reconcile one object.

        Raises:
            RetryLaterError: Retry after a fixed time.
            ApiError: A write failed; retry with backoff.
        """
        with self._write_guard.attribute_writes(key):
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> ReconcileResult:
        if key[0] in self._key_rings:
            return await self._key_rings[key[0]]()
        entry = self._cluster.cache.get(*key)
        if key[0] == names.APPROVAL:
            ends = self._is_ending(key[1]) or (entry is not None and (entry.deleting or view_of(entry).malformed))
            return ReconcileResult() if ends else await self._approvals(key)
        if entry is None:
            # The garbage collector deletes the children of a deleted owner.
            self._kinds[key[0]].forget(key)
            self._write_guard.forget(key)
            return ReconcileResult()
        if entry.deleting or self._is_ending(entry.namespace):
            return ReconcileResult()
        if is_managed_elsewhere(entry, self._settings):
            self._kinds[key[0]].forget(key)
            self._on_conflict(entry)
            return ReconcileResult()
        if mistakes := view_of(entry).malformed:
            # No child is written: the meaning of such a spec is unknown, and the running children may still be right.
            await self._report_malformed(entry, mistakes)
            return ReconcileResult(settled=False)
        try:
            result = await self._kinds[entry.kind](entry)
            return self._revisit_loop(entry, result)
        except WriteLoopError:
            await self._report_loop(key)
            raise
        except UNREADABLE as error:
            logger.exception("unreadable", extra={"kind": key[0], "namespace": key[1], "object": key[2]})
            message = f"the spec has a value that cannot be read, {type(error).__name__}: {error}. Apply a valid object"
            await self._report_malformed(entry, [Violation(MALFORMED, message)])
            return ReconcileResult(settled=False)

    def _revisit_loop(self, entry: CachedObject, result: ReconcileResult) -> ReconcileResult:
        """Reconcile an object again whose writes repeated, because no event reports that they have stopped."""
        if not self._cluster.list_delayed_writes(entry):
            return result
        pauses = [pause for pause in (result.requeue_after, MEMORY_SECONDS) if pause is not None]
        return replace(result, requeue_after=min(pauses))

    async def _report_loop(self, key: Key) -> None:
        """Report that a delayed write has ended the reconcile. The condition is the only change of the status."""
        entry = self._cluster.cache.get(*key)
        if entry is None:
            return
        status = add_write_loop(
            entry.projection["status"],
            self._cluster.list_delayed_writes(entry),
            generation=entry.generation,
            now=self._now(),
        )
        await self._cluster.write_status(entry, status)

    def _is_ending(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted.

        Nothing can be created in such a namespace, and objects are expected to be missing.
        """
        space = self._cluster.cache.get("NamespaceMetadata", "", namespace)
        return space is not None and space.deleting

    async def _report_malformed(self, entry: CachedObject, mistakes: Sequence[Violation]) -> None:
        """Report a spec that does not match its CRD. A retry would not help: the object or the CRD has to change."""
        status = custom_status(
            entry.projection["status"],
            StageOutcomes(accepted=mistakes),
            generation=entry.generation,
            now=self._now(),
            rolls_out=entry.kind != names.SKILL,
            installation=self._settings.installation,
        )
        await self._cluster.write_status(entry, status)
