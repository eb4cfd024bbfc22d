"""Export of everything that the agent remembers of an owner, or of one conversation, as JSON lines.

The stores are read one after another and streamed, so the export is never in memory as a whole. The last line contains
the number of lines before it, so that a truncated export is detectable. Credentials of push receivers are not exported.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from google.protobuf.json_format import MessageToDict

from fleetwright_agent.server.admin.erasure import ErasableStores
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.learned_skills import skill_v1

Line = dict[str, Any]


async def export_lines(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    """Yield the lines of the export. Raises: LogUnusable, MemoryUnusable, OSError."""
    number = 0
    for store in (_tasks, _conversations, _sessions, _grants, _facts, _skills, _costs, _audit_lines):
        async for line in store(stores, target):
            number += 1
            yield line
    yield {"kind": "end", "lines": number}


async def _tasks(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for key in await stores.log.of(target.owner, target.context_id):
        stored = await stores.log.find(key.owner, key.task_id)
        if stored is None:
            continue
        registrations = await stores.log.pushes.registrations(stored.n)
        receivers = [{"id": each.id, "url": each.url} for each in registrations]
        yield {"kind": "task", "task": MessageToDict(stored.task), "pushConfigs": receivers}


async def _conversations(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    conversations = stores.storage.conversations
    for each in await conversations.last_uses(target.owner):
        if target.context_id in ("", each.context_id):
            for part in await conversations.transcript(each.owner, each.context_id):
                yield {"kind": "conversation", "usedAt": each.used, **part}


async def _sessions(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for session in await stores.storage.sessions.of(target.owner, target.context_id):
        yield {"kind": "session", **asdict(session)}


async def _grants(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for grant in await stores.storage.grants.of(target.owner, target.context_id):
        yield {"kind": "grant", **asdict(grant)}


async def _facts(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for fact in await stores.storage.facts.facts(target.owner, target.context_id):
        yield {"kind": "fact", **asdict(fact)}


async def _skills(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for skill in await stores.storage.skills.skills(target.owner, context_id=target.context_id):
        yield {"kind": "skill", "usedAt": skill.used, "uses": skill.uses, **skill_v1(skill)}


async def _costs(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    """Yield the costs; only for a whole owner, because costs are not stored per conversation."""
    for costs in [] if target.context_id else await stores.storage.usage.of(target.owner):
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


async def _audit_lines(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for line in await stores.trail.of(target.owner, target.context_id):
        yield {"kind": "auditLine", "line": line}
