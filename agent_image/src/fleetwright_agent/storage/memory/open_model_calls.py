"""Model calls that have started and not ended, in memory. The next instance reads the remaining ones."""

import json
from typing import Any

from fleetwright_agent.storage.memory.tables import MemoryTables


class MemoryOpenModelCalls:
    """The records of one process. Calls that the tables already contain at its start belong to earlier processes."""

    def __init__(self, tables: MemoryTables) -> None:
        self._records = tables.open_calls
        self._former = frozenset(tables.open_calls)

    def begin(self, call: str, about: Any) -> None:
        self._records[call] = json.dumps(about)

    def end(self, call: str) -> None:
        self._records.pop(call, None)

    def left(self) -> dict[str, Any]:
        return {call: json.loads(about) for call, about in self._records.items() if call in self._former}

    def erase(self, owner: str, *, named: str) -> None:
        for call, about in self.left().items():
            if about["owner"] == owner:
                self._records[call] = json.dumps({**about, "owner": named})

    def aclose(self) -> None:
        """Do nothing: there is no file."""
