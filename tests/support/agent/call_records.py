"""The records of calls of peers, for tests that build the tools of peers."""

from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.tools.peers.call_records import CallRecords


def call_records(storage: Storage | None = None) -> CallRecords:
    """Return the records in these stores, or in new stores in memory."""
    stores = storage or memory_storage()
    return CallRecords(stores.peer_calls, stores.delegated, redact=str, now=lambda: 0.0)
