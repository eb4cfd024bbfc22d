"""Curates the skills of an agent once, outside the agent's process. It opens and closes the stores."""

import socket

from prometheus_client import CollectorRegistry

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.factory import audit_trail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.factory import agent_storage
from fleetwright_agent.storage.learned_skills import CurationResult
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.telemetry.metrics import Metrics


async def curate_once(config: AgentConfig, layout: Layout, *, dry_run: bool) -> list[CurationResult]:
    """Curate all skills and return the results.

    Raises: MemoryUnusable, OSError: Not all skills could be curated, or another process uses the memory volume.
    """
    lock = MemoryLock(layout.memory, name=f"fleetwright-agent curate in {socket.gethostname()}")
    if holder := lock.take_lock():
        remedy = "while the agent serves, use `fleetwright skills curate`"
        raise MemoryUnusable(f"{holder} uses the memory volume; {remedy}")
    # These metrics are never exported; a running agent has its own.
    clock, metrics = Clock(), Metrics(CollectorRegistry())
    skills = agent_storage(layout, clock, lock).skills
    trail = audit_trail(config, layout, metrics, clock)
    curator = Curator(config, skills, tell=trail.note, metrics=metrics, clock=clock)
    try:
        return await curator.curate(by="command", dry_run=dry_run)
    finally:
        await skills.aclose()
        await trail.aclose()
        lock.release_lock()
