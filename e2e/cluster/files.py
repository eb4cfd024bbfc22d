"""Writes files that running programs watch. A file that already has the content is not changed."""

from pathlib import Path


def write(path: Path, content: str) -> None:
    if not path.exists() or path.read_text() != content:
        path.touch(mode=0o600)
        path.write_text(content)
