"""The calls with which the agent asked other agents, in memory."""

from dataclasses import replace

from fleetwright_agent.storage.memory.tables import MemoryTables
from fleetwright_agent.storage.open_questions import MOST_ENDED_CALLS, MOST_UNFINISHED_CALLS, PeerCall


class MemoryPeerCalls:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def begin(self, call: PeerCall) -> PeerCall:
        known = self._tables.peer_calls.get(call.id)
        if known is not None:
            call = replace(call, began_at=known.began_at, peer_task_id=known.peer_task_id)
        self._tables.peer_calls[call.id] = call
        self._trim()
        return call

    async def update(self, call: PeerCall) -> None:
        known = self._tables.peer_calls.get(call.id)
        if known is None or known.ended_at is not None:
            return
        self._tables.peer_calls[call.id] = replace(
            known,
            task_id=call.task_id,
            peer_task_id=call.peer_task_id,
            status=call.status,
            result=call.result,
            ended_at=call.ended_at,
        )
        self._trim()

    async def of(self, owner: str = "", context_id: str = "") -> list[PeerCall]:
        newest = reversed(self._tables.peer_calls.values())
        return [each for each in newest if owner in ("", each.owner) and context_id in ("", each.context_id)]

    async def expire(self, before: float) -> None:
        for each in list(self._tables.peer_calls.values()):
            if each.ended_at is not None and each.ended_at < before:
                del self._tables.peer_calls[each.id]

    async def oldest(self) -> float | None:
        ends = (each.ended_at for each in self._tables.peer_calls.values())
        return min((each for each in ends if each is not None), default=None)

    def _trim(self) -> None:
        calls = [*self._tables.peer_calls.values()]
        # A stable sort keeps the newest of the calls that ended at the same time.
        ended = sorted((each for each in calls if each.ended_at is not None), key=lambda each: each.ended_at or 0.0)
        unfinished = [each for each in calls if each.ended_at is None]
        for each in (*ended[:-MOST_ENDED_CALLS], *unfinished[:-MOST_UNFINISHED_CALLS]):
            del self._tables.peer_calls[each.id]
