"""The output that a tool streams. Pieces that arrive within a tenth of a second become one frame.

The total output of a call is bounded, because every frame is stored in the task.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from fleetwright_agent.protocol.frames import Frame, ToolOutput

FLUSH_SECONDS: Final = 0.1
MOST_CHARACTERS: Final = 50_000
_CUT: Final = "\n[The output is longer; the rest is not shown.]"


class OutputStream:
    def __init__(self, call_id: str, name: str, emit: Callable[[Frame], None]) -> None:
        self._call_id = call_id
        self._name = name
        self._emit = emit
        self._left = MOST_CHARACTERS
        self._pieces: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, text: str) -> None:
        """Add a piece of output. Call this on the event loop."""
        if not text or self._left < 0:
            return
        self._pieces.append(text[: self._left])
        self._left -= len(text)
        if self._left < 0:
            self._pieces.append(_CUT)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Emit the buffered output."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, self._pieces = "".join(self._pieces), []
        if text:
            self._emit(ToolOutput(self._call_id, self._name, text))

    def close(self) -> None:
        """Emit the buffered output, and ignore later pieces."""
        self.flush()
        self._left = -1
