"""Export of everything that the agent remembers of an owner, or of one conversation, as JSON lines.

The stores are read one after another and streamed, so the export is never in memory as a whole. The last line contains
the number of lines before it, so that a truncated export is detectable. Credentials of push receivers are not exported.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from google.protobuf.json_format import MessageToDict

from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.admin.delegations import delegation_document
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.learned_skills import skill_v1
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog

Line = dict[str, Any]


class MemoryExport:
    def __init__(self, task_log: TaskLog, storage: Storage, audit_trail: AuditTrail) -> None:
        self._task_log = task_log
        self._storage = storage
        self._audit_trail = audit_trail

    async def lines(self, target: ErasureTarget) -> AsyncIterator[Line]:
        """Yield the lines of the export. Raises: TaskLogUnavailable, MemoryUnusable, OSError."""
        number = 0
        stores = (
            *(self._tasks, self._conversations, self._sessions, self._grants, self._workspaces),
            *(self._facts, self._skills, self._delegations, self._costs, self._audit_lines),
        )
        for store in stores:
            async for line in store(target):
                number += 1
                yield line
        yield {"kind": "end", "lines": number}

    async def _tasks(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for key in await self._task_log.of(target.owner, target.context_id):
            stored = await self._task_log.find(key.owner, key.task_id)
            if stored is None:
                continue
            registrations = await self._task_log.pushes.registrations(stored.n)
            receivers = [{"id": each.id, "url": each.url} for each in registrations]
            yield {"kind": "task", "task": MessageToDict(stored.task), "pushConfigs": receivers}

    async def _conversations(self, target: ErasureTarget) -> AsyncIterator[Line]:
        conversations = self._storage.conversations
        for each in await conversations.last_uses(target.owner):
            if target.context_id in ("", each.context_id):
                titles = await conversations.titles(each.owner, [each.context_id])
                title = {"title": titles[each.context_id]} if titles else {}
                for part in await conversations.transcript(each.owner, each.context_id):
                    yield {"kind": "conversation", "usedAt": each.used, **title, **part}

    async def _sessions(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for session in await self._storage.sessions.of(target.owner, target.context_id):
            yield {"kind": "session", **asdict(session)}

    async def _grants(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for grant in await self._storage.grants.of(target.owner, target.context_id):
            yield {"kind": "grant", **asdict(grant)}

    async def _workspaces(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for record in await self._storage.workspace.of(target.owner, target.context_id):
            yield {"kind": "workspace", **asdict(record)}

    async def _facts(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for fact in await self._storage.facts.facts(target.owner, target.context_id):
            yield {"kind": "fact", **asdict(fact)}

    async def _skills(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for skill in await self._storage.skills.skills(target.owner, context_id=target.context_id):
            yield {"kind": "skill", "usedAt": skill.used, "uses": skill.uses, **skill_v1(skill)}

    async def _delegations(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for call in await self._storage.peer_calls.of(target.owner, target.context_id):
            yield {"kind": "delegation", **delegation_document(call)}

    async def _costs(self, target: ErasureTarget) -> AsyncIterator[Line]:
        """Yield the costs. Only the export of a whole owner has them, because costs are not stored by conversation."""
        for costs in [] if target.context_id else await self._storage.usage.of(target.owner):
            amounts = costs.sum
            yield {
                "kind": "cost",
                "hour": time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(costs.hour)),
                "model": costs.model,
                "purpose": costs.purpose,
                "calls": amounts.calls,
                "inputTokens": amounts.input_tokens,
                "outputTokens": amounts.output_tokens,
                "cacheReadTokens": amounts.cache_read_tokens,
                "cacheWriteTokens": amounts.cache_write_tokens,
                "unpricedCalls": amounts.unpriced,
                "usd": f"{amounts.usd:f}",
            }

    async def _audit_lines(self, target: ErasureTarget) -> AsyncIterator[Line]:
        for line in await self._audit_trail.of(target.owner, target.context_id):
            yield {"kind": "auditLine", "line": line}
