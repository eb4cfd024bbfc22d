"""The newest compaction of this process, for the status page. Earlier compactions are not kept."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fleetwright_agent.protocol.frames import CompactionEnd


@dataclass(slots=True)
class LastCompaction:
    seen: dict[str, Any] | None = None

    def note(self, end: CompactionEnd, *, at_ns: int) -> None:
        self.seen = {
            "at": datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="seconds"),
            "outcome": end.outcome,
            "tokensBefore": end.tokens_before,
            "tokensAfter": end.tokens_after,
            "trigger": end.trigger,
            "method": end.method,
            "paybackCalls": end.payback_calls,
            "cheapestTrigger": end.cheapest_trigger,
        }
