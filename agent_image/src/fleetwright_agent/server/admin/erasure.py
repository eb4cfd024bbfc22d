"""Erases everything that is remembered of an owner, or of one of its conversations, from every file of the volume.

What runs for the owner is cancelled first, also in its other conversations, for they may have been told of this one;
and nothing of the owner is taken in meanwhile. An erasure that was begun is on disk before
anything goes, so that a process that dies leaves it to the next. Refuses: deciding who may ask for it.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fleetwright_agent.audit.files import ERASED
from fleetwright_agent.audit.trail import AuditFailed, AuditTrail
from fleetwright_agent.clock import Clock
from fleetwright_agent.server.tasks.active_tasks import LiveTasks
from fleetwright_agent.server.tasks.admission import Gate
from fleetwright_agent.server.tasks.task_runner import Runs
from fleetwright_agent.storage.open_model_calls import OpenCalls
from fleetwright_agent.storage.sqlite import owner_data
from fleetwright_agent.storage.sqlite.conversations.sessions import Sessions
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.erasures import Begun, Erasures, Target
from fleetwright_agent.storage.sqlite.facts import Knowledge
from fleetwright_agent.storage.sqlite.learned_skills import LearnedSkills
from fleetwright_agent.storage.sqlite.usage_store import NOBODY
from fleetwright_agent.storage.task_log import Key, TaskLog

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """Everything that remembers."""

    log: TaskLog
    conversations: Database
    sessions: Sessions
    knowledge: Knowledge
    skills: LearnedSkills
    trail: AuditTrail
    open_calls: OpenCalls
    audited: bool = True
    """Whether lines are added to the trail; those that are there are read and erased all the same."""

    async def tell(self, event: str, about: Mapping[str, Any], *, altered: bool = False) -> None:
        """Add a line where there is a trail; one that is lost is counted, and undoes nothing.

        Args: `altered` says that lines of the trail were changed, which needs a line even while no others are added.
        """
        if self.audited or altered:
            with suppress(AuditFailed):
                await self.trail.record(event, about)


class Erasure:
    def __init__(self, stores: Stores, *, tasks: LiveTasks, runs: Runs, gate: Gate, clock: Clock) -> None:
        self._stores = stores
        self._tasks = tasks
        self._runs = runs
        self._gate = gate
        self._clock = clock
        self._records = Erasures(stores.conversations)
        self._one_at_a_time = asyncio.Lock()
        self._left_over = True
        """Something may have been begun and not finished; by the process before this one, to begin with."""

    async def erase(self, target: Target, *, asked_by: str) -> Mapping[str, Any]:
        """The receipt; where nothing is left to erase, that of the time before.

        Raises:
            LogUnusable, MemoryUnusable, OSError: It is not complete; upkeep finishes what was begun.
        """
        async with self._one_at_a_time:
            with self._gate.closed(target.owner):
                keys = await self._stopped(target)
                found = await self._found(target)
                if not any(found.values()) and (former := await self._records.last(target)):
                    return former
                self._left_over = True
                begun = await self._begun(target, asked_by)
                return await self._carry_out(begun, found, keys)

    async def resume(self) -> None:
        """Finishes what was begun. Raises like `erase`."""
        if not self._left_over:
            return
        async with self._one_at_a_time:
            for begun in await self._records.unfinished():
                with self._gate.closed(begun.target.owner):
                    keys = await self._stopped(begun.target)
                    await self._carry_out(begun, await self._found(begun.target), keys)
            self._left_over = False

    async def _begun(self, target: Target, asked_by: str) -> Begun:
        """One that was not finished goes on as what it was."""
        for begun in await self._records.unfinished():
            if begun.target == target:
                return begun
        return await self._records.begin(target, asked_by=asked_by, at=self._clock.now())

    async def _stopped(self, target: Target) -> tuple[Key, ...]:
        """The target's tasks; none of the owner's runs any more."""
        keys = await self._stores.log.of(target.owner, target.context_id)
        for key in await self._stores.log.busy():
            live = await self._tasks.find(key.owner, key.task_id) if key.owner == target.owner else None
            if live is not None:
                await self._runs.cancel(live)
                await self._runs.over(live)
        return keys

    async def _found(self, target: Target) -> dict[str, int]:
        owner, context_id = target.owner, target.context_id
        forgotten = await self._stores.log.counted(owner, context_id)
        return {
            "tasks": forgotten.tasks,
            "pushConfigs": forgotten.registrations,
            **await owner_data.counted(self._stores.conversations, target),
            "facts": len(await self._stores.knowledge.facts(owner, context_id)),
            "skills": len(await self._stores.skills.skills(owner, context_id=context_id)),
            "auditLines": len(await self._stores.trail.of(owner, context_id)),
        }

    async def _carry_out(self, begun: Begun, found: Mapping[str, int], keys: tuple[Key, ...]) -> Mapping[str, Any]:
        # What a process before this one had erased of it was there all the same.
        found = {store: max(count, begun.found.get(store, 0)) for store, count in found.items()}
        await self._records.counted(begun, found)
        owner, context_id = begun.target.owner, begun.target.context_id
        stores = self._stores
        await owner_data.erase(stores.conversations, begun.target, tasks=[key.task_id for key in keys])
        await stores.log.forget(owner, context_id)
        self._tasks.forget(keys)
        await stores.knowledge.erase(owner, context_id)
        await stores.skills.erase(owner, context_id)
        await stores.trail.erase(owner, context_id)
        # Interrupted calls are still to be charged. Their cost then stands under the same name as in the ledger.
        stores.open_calls.erase(owner, named=owner if context_id else NOBODY)
        await stores.log.scrub()
        await stores.conversations.scrub()
        receipt = _receipt(begun, found, self._clock.now())
        # The line comes first: a process that ends in between writes a second one, and none is missing.
        await self._tell(receipt)
        await self._records.finish(begun, receipt)
        return receipt

    async def _tell(self, receipt: Mapping[str, Any]) -> None:
        """The trail holds the digest of the receipt: who has the receipt can show that it was given."""
        of = {"erased_session_id": receipt["contextId"]} if "contextId" in receipt else {}
        about = {"erased_owner": receipt["owner"], **of, "by": receipt["askedBy"], "receipt": receipt["digest"]}
        await self._stores.tell(ERASED, about, altered=receipt["erased"]["auditLines"] > 0)
        _logger.info("memory erased", extra={"receipt": receipt["digest"], "erased": receipt["erased"]})


def _receipt(begun: Begun, found: Mapping[str, int], at: float) -> dict[str, Any]:
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
