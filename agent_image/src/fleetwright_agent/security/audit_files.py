"""Where the trail lies, and its lines as they are read; and whether their chain holds. Refuses: writing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleetwright_agent.security.audit_content import chained, is_altered, is_removed

FILE: Final = "audit.jsonl"
NOTHING: Final = "0" * 64
"""As the hash before the first line."""


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def files_of(path: Path) -> tuple[Path, Path]:
    """The former file and the present one."""
    return backup_of(path), path


def lines_of(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)


def parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the trail: how many lines there are, and the hash of the last."""

    lines: int = 0
    hash: str = NOTHING


def following(folder: Path, head: Head) -> Head:
    """The last of the lines that go on from that one, unbroken; that one itself where none does.

    Raises:
        OSError: A file cannot be read.
    """
    before = ""
    for path in files_of(folder / FILE):
        for data in lines_of(path):
            said = parsed(data)
            if before == head.hash and (said is None or said.get("prev") == before):
                head = Head(head.lines + 1, chained(data, said))
            before = chained(data, said)
    return head


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at a trail came to."""

    lines: int
    head: str
    broken: tuple[str, ...] = ()
    """Sentences, each with the file and the line."""
    torn: int = 0
    """Lines that a process could not finish; they hold nothing, and are chained all the same."""
    erased: int = 0
    """Lines that no longer tell how something was done, as an erasure leaves them."""


def verify(folder: Path) -> Verdict:
    """Follows the chain through the backup and the file.

    Raises:
        OSError: A file cannot be read.
    """
    broken: list[str] = []
    before: str | None = None
    lines = torn = erased = 0
    for path in files_of(folder / FILE):
        for number, data in enumerate(lines_of(path), start=1):
            lines += 1
            said = parsed(data)
            if said is None:
                torn += 1
            elif before is not None and said.get("prev") != before:
                broken.append(f"{path.name} line {number}: it does not follow the line before it")
            elif before is None and said.get("seq") == 1 and said.get("prev") != NOTHING:
                broken.append(f"{path.name} line {number}: the first line follows another one")
            if said is not None and is_altered(said):
                broken.append(f"{path.name} line {number}: what it tells was altered")
            erased += said is not None and is_removed(said)
            before = chained(data, said)
    return Verdict(lines, before or NOTHING, tuple(broken), torn, erased)
