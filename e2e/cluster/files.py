"""Writing the files that running programs watch. Refuses to touch a file whose content is right already."""

from pathlib import Path


def write(path: Path, content: str) -> None:
    if not path.exists() or path.read_text() != content:
        path.touch(mode=0o600)
        path.write_text(content)
