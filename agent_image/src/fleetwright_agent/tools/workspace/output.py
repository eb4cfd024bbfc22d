"""Collects the output of a command, with a limit for each stream. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fleetwright_agent.tools.workspace.response_fields import number_of, text_of

MOST_STDOUT: Final = 50_000
MOST_STDERR: Final = 5_000
_PARTIAL_STDOUT: Final = 5_000
_PARTIAL_STDERR: Final = 2_000


@dataclass(slots=True)
class BoundedText:
    """Keeps the head and the tail of a text, and marks the cut between them."""

    most: int
    head: str = ""
    tail: str = ""
    cut: int = 0
    """The number of characters that are missing between head and tail."""

    def add(self, text: str) -> None:
        room = self.most // 2 - len(self.head) if not self.tail and not self.cut else 0
        self.head += text[:room]
        self.tail += text[room:]
        if (over := len(self.tail) - (self.most - self.most // 2)) > 0:
            self.cut += over
            self.tail = self.tail[over:]

    def skip(self, characters: int) -> None:
        """Note a cut that the runner has made here."""
        self.head, self.tail = self.head + self.tail, ""
        self.cut += characters

    def text(self) -> str:
        return f"{self.head}{_mark(self.cut)}{self.tail}"

    def end(self, most: int) -> str:
        """Return the end of the text."""
        whole = self.text()
        return whole if len(whole) <= most else f"{_mark(len(whole) - most + self.cut).lstrip()}{whole[-most:]}"


def _mark(cut: int) -> str:
    return f"\n[{cut} characters are cut here]\n" if cut else ""


@dataclass(slots=True)
class CommandOutput:
    stdout: BoundedText = field(default_factory=lambda: BoundedText(MOST_STDOUT))
    stderr: BoundedText = field(default_factory=lambda: BoundedText(MOST_STDERR))

    def add(self, event: Mapping[str, Any]) -> str:
        """Add an event of the runner, and return the text that it contains."""
        stream = self.stderr if event.get("stream") == "stderr" else self.stdout
        if cut := number_of(event, "cut"):
            stream.skip(cut)
        text = text_of(event, "text")
        stream.add(text)
        return text

    def whole(self) -> str:
        return _joined(self.stdout.text(), self.stderr.text())

    def partial(self) -> str:
        """Return the end of the output of a command that came to no end."""
        return _joined(self.stdout.end(_PARTIAL_STDOUT), self.stderr.end(_PARTIAL_STDERR))


def _joined(stdout: str, stderr: str) -> str:
    errors = f"[stderr]\n{stderr.strip()}" if stderr.strip() else ""
    return "\n".join(filter(None, [stdout.rstrip("\n"), errors]))
