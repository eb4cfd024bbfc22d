"""The port of the model calls that have started and not ended.

Every implementation guarantees that a record outlives the process, unless the memory of the agent is ephemeral. Records
in memory outlive the instance that wrote them: the next instance over the same state reads them. No call waits for a
disk, so a power failure may lose the newest records. A record names the owner and the task of a call, and never any
content. This module does not know what a call costs.
"""

from typing import Any, Protocol


class OpenModelCalls(Protocol):
    def begin(self, call: str, about: Any) -> None:
        """Record a call. If it cannot be written, an error is logged and the call goes ahead."""

    def end(self, call: str) -> None:
        """Remove a call that has ended and whose cost is stored."""

    def left(self) -> dict[str, Any]:
        """Return what former processes recorded of calls that never ended, by call.

        Raises:
            OSError: The records cannot be read.
        """

    def erase(self, owner: str, *, named: str) -> None:
        """Replace that owner by `named` in the calls that former processes left. Running calls keep their owner.

        Raises:
            OSError: The records cannot be written.
        """

    def aclose(self) -> None: ...
