"""The open cases of a sweep, which its first process prints when a signal ends it.

Each process of the sweep writes its open cases to a file. The first process can then name them although a signal ends
the others at once, and although they may hang.
"""

from collections.abc import Iterable
from pathlib import Path

from e2e.faults.plan import Case


class OpenCases:
    """The cases that a process has begun and not judged."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.open"
        self._lines: dict[str, list[str]] = {}

    def begin(self, space: str, step: str, cases: Iterable[Case] = ()) -> None:
        """Note that a namespace takes this step with these cases. Its earlier cases have ended."""
        self._lines[space] = [f"{step}, {case} ({space})" for case in cases] or [f"{step} ({space})"]
        self._write()

    def end(self, space: str) -> None:
        """Note that the namespace has ended its step."""
        self._lines.pop(space, None)
        self._write()

    def _write(self) -> None:
        # The replacement is atomic, because the first process may read the file at any moment.
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"  open: {line}\n" for lines in self._lines.values() for line in lines))
        fresh.replace(self._file)


def read_open_cases(folder: Path) -> str:
    """Return the open cases of all processes of the sweep, one on each line."""
    return "".join(file.read_text() for file in sorted(folder.glob("*.open")))
