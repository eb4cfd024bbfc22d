"""Erasure of everything that the agent remembers of an owner, or of one conversation, from every file of the volume.

First, all runs of the owner are cancelled. Runs in conversations that are not erased are cancelled too, because they
may have used the erased data. The erasure of a conversation includes its forks: they begin with a copy of its messages,
and their own messages may repeat its content. During an erasure, no message of the owner is accepted. An erasure is
recorded on disk before anything is deleted, so that the next process can finish it after a crash. This module does not
decide who may request an erasure.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.files import ERASED
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.erasures import ErasureTarget, PendingErasure
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.storage.usage import NOBODY

_logger = logging.getLogger(__name__)


class Erasure:
    def __init__(
        self,
        task_log: TaskLog,
        storage: Storage,
        audit_trail: AuditTrail,
        *,
        tasks: ActiveTasks,
        runs: TaskRunner,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._task_log = task_log
        self._storage = storage
        self._audit_trail = audit_trail
        self._tasks = tasks
        self._runs = runs
        self._admission = admission
        self._clock = clock
        self._records = storage.erasures
        self._one_at_a_time = asyncio.Lock()
        self._left_over = True
        """True if there may be an unfinished erasure. At the start, the previous process may have left one."""

    async def erase(self, target: ErasureTarget, *, asked_by: str) -> Mapping[str, Any]:
        """Erase the target's data and return the receipt. If there is no data, return the previous receipt.

        This first completes the unfinished erasures of the owner.

        Raises:
            TaskLogUnavailable, MemoryUnusable, OSError: The erasure is not complete; maintenance finishes it later.
        """
        async with self._one_at_a_time:
            with self._admission.closed(target.owner):
                await self._stop(target.owner)
                # An unfinished erasure may have deleted the rows by which the forks of this target are found.
                for begun in await self._records.unfinished():
                    if begun.target.owner == target.owner:
                        await self._complete(begun)
                places = await self._places(target)
                found = await self._found(places)
                if not any(found.values()) and (former := await self._records.last(target)):
                    return former
                self._left_over = True
                begun = await self._records.begin(target, asked_by=asked_by, at=self._clock.now())
                return await self._carry_out(begun, places, found)

    async def resume(self) -> None:
        """Finish interrupted erasures. Raises the same exceptions as `erase`."""
        if not self._left_over:
            return
        async with self._one_at_a_time:
            for begun in await self._records.unfinished():
                with self._admission.closed(begun.target.owner):
                    await self._stop(begun.target.owner)
                    await self._complete(begun)
            self._left_over = False

    async def _complete(self, begun: PendingErasure) -> None:
        places = await self._places(begun.target, begun.forks)
        await self._carry_out(begun, places, await self._found(places))

    async def _stop(self, owner: str) -> None:
        """Stop all runs of the owner."""
        for key in await self._task_log.busy():
            live = await self._tasks.find(key.owner, key.task_id) if key.owner == owner else None
            if live is not None:
                await self._runs.cancel(live)
                await self._runs.over(live)

    async def _places(self, target: ErasureTarget, known: Sequence[str] = ()) -> tuple[ErasureTarget, ...]:
        """Return the target and the forks of its conversation.

        Args: `known` are the forks that an earlier attempt has found. It may have deleted the rows of some of them.
        """
        if not target.context_id:
            return (target,)
        forks = set(known)
        # Forks that began after the earlier attempt may be connected with the target only through a known fork.
        for source in (target.context_id, *known):
            forks.update(await self._storage.conversations.forks(target.owner, source))
        forks.discard(target.context_id)
        return (target, *(ErasureTarget(target.owner, fork) for fork in sorted(forks)))

    async def _found(self, places: Sequence[ErasureTarget]) -> dict[str, int]:
        """Return the number of entries in each store, in all of these places together."""
        each = [await self._found_in(place) for place in places]
        return {store: sum(found[store] for found in each) for store in each[0]}

    async def _found_in(self, target: ErasureTarget) -> dict[str, int]:
        owner, context_id = target.owner, target.context_id
        forgotten = await self._task_log.counted(owner, context_id)
        return {
            "tasks": forgotten.tasks,
            "pushConfigs": forgotten.registrations,
            **await self._storage.owners.counted(target),
            "facts": len(await self._storage.facts.facts(owner, context_id)),
            "skills": len(await self._storage.skills.skills(owner, context_id=context_id)),
            "auditLines": len(await self._audit_trail.of(owner, context_id)),
        }

    async def _carry_out(
        self, begun: PendingErasure, places: Sequence[ErasureTarget], found: Mapping[str, int]
    ) -> Mapping[str, Any]:
        # The receipt includes the entries that an earlier process has already erased.
        found = {store: max(count, begun.found.get(store, 0)) for store, count in found.items()}
        forks = [place.context_id for place in places[1:]]
        # The record keeps the forks, because the next step deletes the rows by which they are found.
        await self._records.counted(begun, found, forks)
        for place in places:
            await self._erase_place(place)
        owner, context_id = begun.target.owner, begun.target.context_id
        # Model calls that a crash interrupted must still be charged, under the same owner name as in the ledger.
        self._storage.open_calls.erase(owner, named=owner if context_id else NOBODY)
        await self._task_log.scrub()
        await self._storage.file.scrub()
        receipt = _receipt(begun, found, forks, self._clock.now())
        # Write the audit line first: a crash between the two writes may cause a second line, but never a missing one.
        await self._tell(receipt)
        await self._records.finish(begun, receipt)
        return receipt

    async def _erase_place(self, place: ErasureTarget) -> None:
        owner, context_id = place.owner, place.context_id
        keys = await self._task_log.of(owner, context_id)
        await self._storage.owners.erase(place, tasks=[key.task_id for key in keys])
        await self._task_log.forget(owner, context_id)
        self._tasks.forget(keys)
        await self._storage.facts.erase(owner, context_id)
        await self._storage.skills.erase(owner, context_id)
        await self._audit_trail.erase(owner, context_id)

    async def _tell(self, receipt: Mapping[str, Any]) -> None:
        """Record the digest of the receipt in the audit trail, as proof that a receipt is genuine.

        A fork has a line of its own, because the verification of the trail looks for the conversation of each line
        whose details were removed.
        """
        about = {"erased_owner": receipt["owner"], "by": receipt["askedBy"], "receipt": receipt["digest"]}
        altered = receipt["erased"]["auditLines"] > 0
        if "contextId" not in receipt:
            await self._audit_trail.note(ERASED, about, altered=altered)
        else:
            source = receipt["contextId"]
            await self._audit_trail.note(ERASED, {**about, "erased_session_id": source}, altered=altered)
            for fork in receipt.get("forks", ()):
                line = {**about, "erased_session_id": fork, "forked_from": source}
                await self._audit_trail.note(ERASED, line, altered=altered)
        _logger.info("memory erased", extra={"receipt": receipt["digest"], "erased": receipt["erased"]})


def _receipt(begun: PendingErasure, found: Mapping[str, int], forks: Sequence[str], at: float) -> dict[str, Any]:
    receipt = {
        "number": begun.number,
        "owner": begun.target.owner,
        **({"contextId": begun.target.context_id} if begun.target.context_id else {}),
        **({"forks": list(forks)} if forks else {}),
        "askedBy": begun.asked_by,
        "begunAt": _moment(begun.at),
        "completedAt": _moment(at),
        "erased": dict(found),
    }
    canonical = json.dumps(receipt, sort_keys=True, separators=(",", ":")).encode()
    return {**receipt, "digest": f"sha256:{hashlib.sha256(canonical).hexdigest()}"}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
