"""Export of everything that the agent remembers of an owner, or of one conversation, as JSON lines.

The stores are read one after another and streamed, so the export is never in memory as a whole. The last line contains
the number of lines before it, so that a truncated export is detectable. Credentials of push receivers are not exported.
"""

import asyncio
import importlib
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, Final

from google.protobuf.json_format import MessageToDict

from fleetwright_agent.server.admin.erasure import ErasableStores
from fleetwright_agent.storage.learned_skill import skill_v1
from fleetwright_agent.storage.sqlite.conversations.last_use import conversations
from fleetwright_agent.storage.sqlite.erasures import ErasureTarget
from fleetwright_agent.storage.sqlite.grants import grants_of
from fleetwright_agent.storage.sqlite.usage_store import costs_of

Line = dict[str, Any]
_TRANSCRIPTS: Final = "fleetwright_agent.storage.sqlite.conversations.transcripts"


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
    found = await conversations(stores.conversations, target.owner)
    # Imported lazily, because reading messages needs the heavy libraries of the agent loop.
    transcripts = await asyncio.to_thread(importlib.import_module, _TRANSCRIPTS)
    for each in found:
        if target.context_id in ("", each.context_id):
            for part in await transcripts.transcript(stores.conversations, each.owner, each.context_id):
                yield {"kind": "conversation", "usedAt": each.used, **part}


async def _sessions(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for session in await stores.sessions.of(target.owner, target.context_id):
        yield {"kind": "session", **asdict(session)}


async def _grants(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for grant in await grants_of(stores.conversations, target.owner, target.context_id):
        yield {"kind": "grant", **asdict(grant)}


async def _facts(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for fact in await stores.knowledge.facts(target.owner, target.context_id):
        yield {"kind": "fact", **asdict(fact)}


async def _skills(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    for skill in await stores.skills.skills(target.owner, context_id=target.context_id):
        yield {"kind": "skill", "usedAt": skill.used, "uses": skill.uses, **skill_v1(skill)}


async def _costs(stores: ErasableStores, target: ErasureTarget) -> AsyncIterator[Line]:
    """Yield the costs; only for a whole owner, because costs are not stored per conversation."""
    for costs in [] if target.context_id else await costs_of(stores.conversations, target.owner):
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
