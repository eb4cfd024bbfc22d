"""The port of the sliding windows that count the calls of rate-limited tools.

Every implementation guarantees:

- A call is counted in all of its windows or in no window, in one commit.
- The counts survive a restart of the process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CallLimitWindow:
    """At most `most` calls within `seconds` for one key."""

    key: str
    most: int
    seconds: int


class CallWindows(Protocol):
    async def admit(self, windows: Sequence[CallLimitWindow]) -> tuple[CallLimitWindow, float] | None:
        """Count a call in all windows, or in none. Return the first full window and the seconds until it has room.

        Raises:
            MemoryUnusable: Nothing was counted.
        """
