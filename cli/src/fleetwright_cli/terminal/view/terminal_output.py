"""The output of the inline terminal: whole frames, in synchronized mode."""

from typing import Final, TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

BEGIN_FRAME: Final = "\x1b[?2026h"
END_FRAME: Final = "\x1b[?2026l"


class FrameOutput(Vt100_Output):
    """Writes each flush as one synchronized update (mode 2026). Terminals without this mode ignore the sequences.

    While the output is held, nothing is written. So the removal of the live region, new text above it and the new live
    region reach the terminal as one frame.
    """

    held = False

    def flush(self) -> None:
        if self.held or not self._buffer:
            return
        self._buffer.insert(0, BEGIN_FRAME)
        self._buffer.append(END_FRAME)
        super().flush()

    def release(self) -> None:
        self.held = False
        self.flush()


def frame_output(stdout: TextIO, *, term: str | None) -> FrameOutput:
    """Return the output for a terminal. It never asks for the position of the cursor, because late replies of slow
    connections would appear as text.
    """
    import os
    import shutil

    def size() -> Size:
        try:
            found = os.get_terminal_size(stdout.fileno())
        except OSError:
            found = shutil.get_terminal_size()
        return Size(rows=found.lines or 24, columns=found.columns or 80)

    return FrameOutput(stdout, size, term=term, enable_cpr=False)
