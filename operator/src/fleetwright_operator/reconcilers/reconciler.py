"""Reconciles one object: read, decide, write, report. Level-triggered: it does not depend on which event came.

    observe ─▶ check ─▶ credentials ─▶ desired ─▶ write ─▶ status

The steps of each kind are in `agents`, `skills`, `servers` and `cardkeys`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

from fleetwright_operator.api import names
from fleetwright_operator.api.violation import Violation
from fleetwright_operator.encoding.timestamps import moment
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.observe.watch_index import MALFORMED, Key
from fleetwright_operator.reconcilers.agent import AgentPass
from fleetwright_operator.reconcilers.card_keys import CardKeysPass
from fleetwright_operator.reconcilers.mcp_server import ServerPass
from fleetwright_operator.reconcilers.result import Ending
from fleetwright_operator.reconcilers.skill import SkillPass
from fleetwright_operator.rollout.preflight_backoff import Tries
from fleetwright_operator.rollout.preflight_runner import Proving
from fleetwright_operator.rollout.probe_schedule import Rounds
from fleetwright_operator.rollout.rollout_limiter import Turns
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import Reports
from fleetwright_operator.status.status import Outcome, custom_status

logger = logging.getLogger(__name__)
Pass = Callable[[Entry], Awaitable[Ending]]


class Reconciler:
    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        reports: Reports,
        now: Callable[[], str],
        mint: Callable[[], str],
        new_secret: Callable[[], str],
        rounds: Rounds,
        wake: Callable[[Key], None],
    ) -> None:
        """Args: `wake` queues an agent whose rollout may start."""
        self._cluster = cluster
        self._rounds = rounds
        self._now = now
        self._reports = reports
        self._card_keys = CardKeysPass(cluster=cluster, settings=settings, now=now, new_secret=new_secret)
        self._skills = SkillPass(cluster=cluster, settings=settings, now=now, rounds=rounds)
        self._proving = Proving(
            cluster=cluster,
            turns=Turns(cluster.cache, most=settings.rollouts, now=lambda: moment(now()), wake=wake),
            tries=Tries(lambda: moment(now())),
        )
        self._passes: Mapping[str, Pass] = {
            names.AGENT: AgentPass(
                cluster=cluster, settings=settings, reports=reports, now=now, mint=mint, proving=self._proving
            ),
            names.SKILL: self._skills,
            names.MCP_SERVER: ServerPass(cluster=cluster, settings=settings, reports=reports, now=now, rounds=rounds),
        }

    async def __call__(self, key: Key) -> Ending:
        """Reconcile one object.

        Raises:
            Waiting: Retry after a fixed time.
            ApiError: A write failed; retry with backoff.
        """
        if key[0] == names.CARD_KEYS:
            return await self._card_keys()
        entry = self._cluster.cache.get(*key)
        if entry is None:
            # The garbage collector deletes the children of a deleted owner.
            if key[0] == names.AGENT:
                self._reports.forget(key[1], key[2])
                self._proving.forget(key)
            if key[0] == names.SKILL:
                self._skills.forget(key)
            self._rounds.forget(key)
            return Ending()
        if entry.deleting or self._is_ending(entry.namespace):
            return Ending()
        try:
            return await self._passes[entry.kind](entry)
        except MALFORMED as error:
            logger.exception("unreadable", extra={"kind": key[0], "namespace": key[1], "object": key[2]})
            await self._tell_unreadable(entry, error)
            return Ending(settled=False)

    def _is_ending(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted: nothing can be created there, and missing objects are
        expected.
        """
        space = self._cluster.cache.get("NamespaceMetadata", "", namespace)
        return space is not None and space.deleting

    async def _tell_unreadable(self, entry: Entry, error: Exception) -> None:
        """Report an object that cannot be parsed. A retry would not help: the object or the operator has to change."""
        message = f"the spec does not have the shape of its CRD, {type(error).__name__}: {error}. Apply a valid object"
        status = custom_status(
            entry.facts["status"],
            Outcome(accepted=[Violation("Malformed", message)]),
            generation=entry.generation,
            now=self._now(),
            rolls_out=entry.kind != names.SKILL,
        )
        await self._cluster.write_status(entry, status)
