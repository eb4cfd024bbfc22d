"""The port of the model calls that have started and not ended.

Every implementation guarantees that a record outlives the process, unless the memory of the agent is ephemeral. Records
in memory outlive the instance that wrote them: the next instance with the same tables reads them. No call waits for a
disk, so a power failure may lose the newest records. A record names the owner and the task of a call, and never any
content. This module does not know what a call costs.
"""

from typing import Any, Protocol


class OpenModelCalls(Protocol):
    def begin(self, call: str, about: Any) -> None:
        """Record a call. If the record cannot be written, an error is logged and the call starts anyway."""

    def end(self, call: str) -> None:
        """Remove a call that has ended and whose cost is stored."""

    def left(self) -> dict[str, Any]:
        """Return the records that earlier processes wrote of calls that never ended, by call id.

        Raises:
            OSError: The records cannot be read.
        """

    def erase(self, owner: str, *, named: str) -> None:
        """Replace the owner by `named` in the records that earlier processes left. Running calls keep their owner.

        Raises:
            OSError: The records cannot be written.
        """

    def aclose(self) -> None: ...
