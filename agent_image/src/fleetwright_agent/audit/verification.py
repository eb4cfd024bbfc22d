"""Verifies an audit trail: the hash chain, the bytes of each line, the beginning, and the records of erasures."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from fleetwright_agent.audit.content import chain_hash, is_altered, is_as_written, is_removed
from fleetwright_agent.audit.files import CONTINUES, ERASED, FILE, NOTHING, files_of, lines_of, parse_line


class FaultKind(Enum):
    """The faults of a trail, each with the exit code of `audit verify`."""

    BROKEN_CHAIN = ("BrokenChain", 10)
    ALTERED_CONTENT = ("AlteredContent", 11)
    REWRITTEN_LINE = ("RewrittenLine", 12)
    MISSING_BEGINNING = ("MissingBeginning", 13)
    UNRECORDED_ERASURE = ("UnrecordedErasure", 14)
    MISSING_END = ("MissingEnd", 15)

    def __init__(self, word: str, exit_code: int) -> None:
        self.word = word
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FaultKind
    message: str
    """A sentence with the file and the line."""


@dataclass(frozen=True, slots=True)
class VerificationResult:
    lines: int
    head: str
    """The hash of the last line."""
    broken: tuple[Finding, ...] = ()
    torn: int = 0
    """The number of partial lines that killed processes left. They contain no event, but are part of the chain."""
    erased: int = 0
    """The number of lines whose arguments and result an erasure has removed."""


@dataclass(frozen=True, slots=True)
class _Line:
    place: str
    """The file's name and the line number."""
    data: bytes
    content: Mapping[str, Any] | None
    """`None` if the line is partial."""


_CHAIN: Final = "it does not follow the line before it"
_CONTENT: Final = "its content was altered"
_BYTES: Final = "its bytes are not as the agent writes them, for example because of a duplicate key"
_BEGINNING: Final = "lines before it are missing: a file begins with the first line or with a line trail_continues"
_ERASURE: Final = "its arguments were removed, and no later line memory_erased names its owner and conversation"
_END: Final = "the trail does not contain the line that was recorded elsewhere as its end"


def verify(folder: Path, *, expected: tuple[int, str] | None = None) -> VerificationResult:
    """Verify the chain through the backup and the current file.

    Args:
        folder: The folder of the trail.
        expected: The number of lines and the hash of the last line, as recorded earlier outside the volume.

    Raises:
        OSError: A file cannot be read.
    """
    lines = [
        _Line(f"{path.name} line {number}", data, parse_line(data))
        for path in files_of(folder / FILE)
        for number, data in enumerate(lines_of(path), start=1)
    ]
    hashes = [chain_hash(line.data, line.content) for line in lines]
    broken = [*_beginning(lines), *_chain(lines, hashes), *_contents(lines), *_erasures(lines)]
    if expected is not None and not _holds(lines, hashes, expected):
        broken.append(Finding(FaultKind.MISSING_END, f"line {expected[0]}: {_END}"))
    return VerificationResult(
        len(lines),
        hashes[-1] if hashes else NOTHING,
        tuple(broken),
        torn=sum(line.content is None for line in lines),
        erased=sum(line.content is not None and is_removed(line.content) for line in lines),
    )


def _beginning(lines: list[_Line]) -> list[Finding]:
    """Verify that the oldest complete line is the first line of the trail, or of a file after a rotation."""
    index = next((index for index, line in enumerate(lines) if line.content is not None), None)
    if index is None:
        return []
    place, content = lines[index].place, lines[index].content or {}
    if content.get("seq") == index + 1:
        # The `prev` of this line covers the partial lines before it.
        whole = index > 0 or content.get("prev") == NOTHING
    else:
        # The current file may start with `trail_continues` only if the backup that it continues exists.
        whole = not place.startswith(f"{FILE} ") and content.get("event") == CONTINUES
    return [] if whole else [Finding(FaultKind.MISSING_BEGINNING, f"{place}: {_BEGINNING}")]


def _chain(lines: list[_Line], hashes: list[str]) -> list[Finding]:
    return [
        Finding(FaultKind.BROKEN_CHAIN, f"{line.place}: {_CHAIN}")
        for before, line in zip(hashes, lines[1:], strict=False)
        if line.content is not None and line.content.get("prev") != before
    ]


def _contents(lines: list[_Line]) -> list[Finding]:
    found = []
    for line in lines:
        if line.content is None:
            continue
        if not is_as_written(line.data, line.content):
            found.append(Finding(FaultKind.REWRITTEN_LINE, f"{line.place}: {_BYTES}"))
        if is_altered(line.content):
            found.append(Finding(FaultKind.ALTERED_CONTENT, f"{line.place}: {_CONTENT}"))
    return found


def _erasures(lines: list[_Line]) -> list[Finding]:
    """Find removed details without a later record of their erasure.

    The lines are checked from last to first, so that the erasures after a line are known.
    """
    erased: set[tuple[Any, Any]] = set()
    found = []
    for line in reversed(lines):
        content = line.content or {}
        if content.get("event") == ERASED:
            erased.add((content.get("erased_owner"), content.get("erased_session_id")))
        elif is_removed(content):
            owner = content.get("owner")
            if not {(owner, None), (owner, content.get("session_id"))} & erased:
                found.append(Finding(FaultKind.UNRECORDED_ERASURE, f"{line.place}: {_ERASURE}"))
    return found[::-1]


def _holds(lines: list[_Line], hashes: list[str], expected: tuple[int, str]) -> bool:
    """Return whether the trail contains the expected line; a line that rotation has deleted counts as present."""
    number, digest = expected
    oldest = next((line.content["seq"] for line in lines if line.content and type(line.content.get("seq")) is int), 1)
    return digest in hashes or 0 < number < oldest
