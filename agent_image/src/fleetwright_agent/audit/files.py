"""Reads the files of the audit trail and their lines. This module writes nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleetwright_agent.audit.content import chain_hash

FILE: Final = "audit.jsonl"
CONTINUES: Final = "trail_continues"
"""The event of the first line after a rotation. Its `prev` is the hash of the last line of the rotated file."""
ERASED: Final = "memory_erased"
"""The event that records an erasure, with the owner and the conversation whose lines have lost their details."""
NOTHING: Final = "0" * 64
"""The hash before the first line."""


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def files_of(path: Path) -> tuple[Path, Path]:
    """Return the backup and the current file."""
    return backup_of(path), path


def lines_of(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)


def parse_line(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class TrailHead:
    """The end of the trail: the number of lines, and the hash of the last line."""

    lines: int = 0
    hash: str = NOTHING


def last_linked(folder: Path, head: TrailHead) -> TrailHead:
    """Return the end of the unbroken chain that follows `head`; `head` itself if no line follows.

    Raises:
        OSError: A file cannot be read.
    """
    before = ""
    for path in files_of(folder / FILE):
        for data in lines_of(path):
            said = parse_line(data)
            if before == head.hash and (said is None or said.get("prev") == before):
                head = TrailHead(head.lines + 1, chain_hash(data, said))
            before = chain_hash(data, said)
    return head
