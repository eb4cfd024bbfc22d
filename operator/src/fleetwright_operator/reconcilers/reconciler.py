"""Reconciles one object: read, decide, write, report. Level-triggered: it does not depend on which event came.

    observe ─▶ check ─▶ credentials ─▶ desired ─▶ write ─▶ status

The steps of each kind are in `agents`, `skills`, `servers` and `cardkeys`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

from fleetwright_operator.api import names
from fleetwright_operator.api.violation import Violation
from fleetwright_operator.encoding.timestamps import parse_timestamp
from fleetwright_operator.kube.cached_object import CachedObject
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.observe.watch_index import MALFORMED, Key
from fleetwright_operator.reconcilers.agent import AgentReconciler
from fleetwright_operator.reconcilers.card_keys import CardKeysReconciler
from fleetwright_operator.reconcilers.mcp_server import McpServerReconciler
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.reconcilers.skill import SkillReconciler
from fleetwright_operator.rollout.preflight_backoff import PreflightBackoff
from fleetwright_operator.rollout.preflight_runner import PreflightRunner
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.rollout_limiter import RolloutLimiter
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.status import StageOutcomes, custom_status

logger = logging.getLogger(__name__)
Pass = Callable[[CachedObject], Awaitable[ReconcileResult]]


class Reconciler:
    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        reports: AgentReports,
        now: Callable[[], str],
        mint: Callable[[], str],
        new_secret: Callable[[], str],
        schedule: ProbeSchedule,
        wake: Callable[[Key], None],
    ) -> None:
        """Args: `wake` queues an agent whose rollout may start."""
        self._cluster = cluster
        self._schedule = schedule
        self._now = now
        self._reports = reports
        self._card_keys = CardKeysReconciler(cluster=cluster, settings=settings, now=now, new_secret=new_secret)
        self._skills = SkillReconciler(cluster=cluster, settings=settings, now=now, schedule=schedule)
        self._preflights = PreflightRunner(
            cluster=cluster,
            limiter=RolloutLimiter(
                cluster.cache, limit=settings.rollouts, now=lambda: parse_timestamp(now()), wake=wake
            ),
            backoff=PreflightBackoff(lambda: parse_timestamp(now())),
        )
        self._passes: Mapping[str, Pass] = {
            names.AGENT: AgentReconciler(
                cluster=cluster, settings=settings, reports=reports, now=now, mint=mint, preflights=self._preflights
            ),
            names.SKILL: self._skills,
            names.MCP_SERVER: McpServerReconciler(
                cluster=cluster, settings=settings, reports=reports, now=now, schedule=schedule
            ),
        }

    async def __call__(self, key: Key) -> ReconcileResult:
        """Reconcile one object.

        Raises:
            RetryLaterError: Retry after a fixed time.
            ApiError: A write failed; retry with backoff.
        """
        if key[0] == names.CARD_KEYS:
            return await self._card_keys()
        entry = self._cluster.cache.get(*key)
        if entry is None:
            # The garbage collector deletes the children of a deleted owner.
            if key[0] == names.AGENT:
                self._reports.forget(key[1], key[2])
                self._preflights.forget(key)
            if key[0] == names.SKILL:
                self._skills.forget(key)
            self._schedule.forget(key)
            return ReconcileResult()
        if entry.deleting or self._is_ending(entry.namespace):
            return ReconcileResult()
        try:
            return await self._passes[entry.kind](entry)
        except MALFORMED as error:
            logger.exception("unreadable", extra={"kind": key[0], "namespace": key[1], "object": key[2]})
            await self._tell_unreadable(entry, error)
            return ReconcileResult(settled=False)

    def _is_ending(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted: nothing can be created there, and missing objects are
        expected.
        """
        space = self._cluster.cache.get("NamespaceMetadata", "", namespace)
        return space is not None and space.deleting

    async def _tell_unreadable(self, entry: CachedObject, error: Exception) -> None:
        """Report an object that cannot be parsed. A retry would not help: the object or the operator has to change."""
        message = f"the spec does not have the shape of its CRD, {type(error).__name__}: {error}. Apply a valid object"
        status = custom_status(
            entry.projection["status"],
            StageOutcomes(accepted=[Violation("Malformed", message)]),
            generation=entry.generation,
            now=self._now(),
            rolls_out=entry.kind != names.SKILL,
        )
        await self._cluster.write_status(entry, status)
