"""One pass over one object: read, decide, write, report. Level-triggered: it never asks what happened.

    observe ─▶ check ─▶ credentials ─▶ desired ─▶ write ─▶ status

The steps of each kind stand in `agents`, `skills` and `servers`.
"""

from collections.abc import Awaitable, Callable, Mapping

from fleetwright_operator import names
from fleetwright_operator.agents import AgentPass
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.relations import Key
from fleetwright_operator.reports import Reports
from fleetwright_operator.servers import ServerPass
from fleetwright_operator.settings import Settings
from fleetwright_operator.skills import SkillPass

Pass = Callable[[Entry], Awaitable[bool]]


class Reconciler:
    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        reports: Reports,
        now: Callable[[], str],
        mint: Callable[[], str],
    ) -> None:
        self._cluster = cluster
        self._reports = reports
        self._passes: Mapping[str, Pass] = {
            names.AGENT: AgentPass(cluster=cluster, settings=settings, reports=reports, now=now, mint=mint),
            names.SKILL: SkillPass(cluster=cluster, now=now),
            names.MCP_SERVER: ServerPass(cluster=cluster, settings=settings, reports=reports, now=now),
        }

    async def __call__(self, key: Key) -> bool:
        """Whether the object is as it should be; if not, a condition says why and a person may have to act.

        Raises:
            Waiting: Come back after a while.
            ApiError: A write failed; come back with backoff.
        """
        entry = self._cluster.cache.get(*key)
        if entry is None:
            # Children go with their owner: the garbage collector sees to it.
            if key[0] == names.AGENT:
                self._reports.forget(key[1], key[2])
            return True
        if entry.deleting:
            return True
        return await self._passes[entry.kind](entry)
