"""Erasure of everything that the agent remembers of an owner, or of one conversation, from every file of the volume.

First, all runs of the owner are cancelled. Runs in conversations that are not erased are cancelled too, because they
may have used the erased data. During an erasure, no message of the owner is accepted. An erasure is recorded on disk
before anything is deleted, so that the next process can finish it after a crash. This module does not decide who may
request an erasure.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
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
from fleetwright_agent.storage.task_log import Key, TaskLog
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

        Raises:
            TaskLogUnavailable, MemoryUnusable, OSError: The erasure is not complete; maintenance finishes it later.
        """
        async with self._one_at_a_time:
            with self._admission.closed(target.owner):
                keys = await self._stopped(target)
                found = await self._found(target)
                if not any(found.values()) and (former := await self._records.last(target)):
                    return former
                self._left_over = True
                begun = await self._begun(target, asked_by)
                return await self._carry_out(begun, found, keys)

    async def resume(self) -> None:
        """Finish interrupted erasures. Raises the same exceptions as `erase`."""
        if not self._left_over:
            return
        async with self._one_at_a_time:
            for begun in await self._records.unfinished():
                with self._admission.closed(begun.target.owner):
                    keys = await self._stopped(begun.target)
                    await self._carry_out(begun, await self._found(begun.target), keys)
            self._left_over = False

    async def _begun(self, target: ErasureTarget, asked_by: str) -> PendingErasure:
        """Return the unfinished erasure of this target, or begin a new one."""
        for begun in await self._records.unfinished():
            if begun.target == target:
                return begun
        return await self._records.begin(target, asked_by=asked_by, at=self._clock.now())

    async def _stopped(self, target: ErasureTarget) -> tuple[Key, ...]:
        """Stop all runs of the owner, and return the keys of the target's tasks."""
        keys = await self._task_log.of(target.owner, target.context_id)
        for key in await self._task_log.busy():
            live = await self._tasks.find(key.owner, key.task_id) if key.owner == target.owner else None
            if live is not None:
                await self._runs.cancel(live)
                await self._runs.over(live)
        return keys

    async def _found(self, target: ErasureTarget) -> dict[str, int]:
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
        self, begun: PendingErasure, found: Mapping[str, int], keys: tuple[Key, ...]
    ) -> Mapping[str, Any]:
        # The receipt includes the entries that an earlier process has already erased.
        found = {store: max(count, begun.found.get(store, 0)) for store, count in found.items()}
        await self._records.counted(begun, found)
        owner, context_id = begun.target.owner, begun.target.context_id
        await self._storage.owners.erase(begun.target, tasks=[key.task_id for key in keys])
        await self._task_log.forget(owner, context_id)
        self._tasks.forget(keys)
        await self._storage.facts.erase(owner, context_id)
        await self._storage.skills.erase(owner, context_id)
        await self._audit_trail.erase(owner, context_id)
        # Model calls that a crash interrupted must still be charged, under the same owner name as in the ledger.
        self._storage.open_calls.erase(owner, named=owner if context_id else NOBODY)
        await self._task_log.scrub()
        await self._storage.file.scrub()
        receipt = _receipt(begun, found, self._clock.now())
        # Write the audit line first: a crash between the two writes may cause a second line, but never a missing one.
        await self._tell(receipt)
        await self._records.finish(begun, receipt)
        return receipt

    async def _tell(self, receipt: Mapping[str, Any]) -> None:
        """Record the digest of the receipt in the audit trail, as proof that a receipt is genuine."""
        of = {"erased_session_id": receipt["contextId"]} if "contextId" in receipt else {}
        about = {"erased_owner": receipt["owner"], **of, "by": receipt["askedBy"], "receipt": receipt["digest"]}
        await self._audit_trail.note(ERASED, about, altered=receipt["erased"]["auditLines"] > 0)
        _logger.info("memory erased", extra={"receipt": receipt["digest"], "erased": receipt["erased"]})


def _receipt(begun: PendingErasure, found: Mapping[str, int], at: float) -> dict[str, Any]:
    receipt = {
        "number": begun.number,
        "owner": begun.target.owner,
        **({"contextId": begun.target.context_id} if begun.target.context_id else {}),
        "askedBy": begun.asked_by,
        "begunAt": _moment(begun.at),
        "completedAt": _moment(at),
        "erased": dict(found),
    }
    canonical = json.dumps(receipt, sort_keys=True, separators=(",", ":")).encode()
    return {**receipt, "digest": f"sha256:{hashlib.sha256(canonical).hexdigest()}"}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
