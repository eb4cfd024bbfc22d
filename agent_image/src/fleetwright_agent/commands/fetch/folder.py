"""Reads a skill's folder: its files, the front matter of SKILL.md, and one digest over all files.

A folder with links, devices, too many files or too many bytes is rejected, because it cannot be mounted as a skill.
This module does not validate SKILL.md against the Agent Skills specification; the operator validates skills of all
sources.
"""

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetwright_agent.config.mounted_files import UnusableContent

DOCUMENT: Final = "SKILL.md"
MOST_FILES: Final = 200
MOST_BYTES: Final = 16 * 1024 * 1024
_LONGEST_HEAD: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    digest: str
    head: str
    """The front matter of SKILL.md, including its closing `---` line."""
    files: tuple[str, ...]


def read_folder(folder: Path) -> SkillFolder:
    """Raises: UnusableContent."""
    files = _files(folder)
    if DOCUMENT not in files:
        raise UnusableContent(f"{DOCUMENT} is missing; add it to the top folder of the skill")
    digests = {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in files}
    whole = json.dumps(digests, sort_keys=True, separators=(",", ":")).encode()
    return SkillFolder(digest=f"sha256:{hashlib.sha256(whole).hexdigest()}", head=_head(folder), files=tuple(files))


def _files(folder: Path) -> list[str]:
    found: list[str] = []
    size = 0
    for place, folders, names in os.walk(folder):
        for name in sorted([*names, *(name for name in folders if Path(place, name).is_symlink())]):
            path = Path(place, name)
            facts = path.lstat()
            relative = path.relative_to(folder).as_posix()
            if not stat.S_ISREG(facts.st_mode):
                raise UnusableContent(f"{relative!r} is not a regular file; a skill contains only files and folders")
            size += facts.st_size
            found.append(relative)
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise UnusableContent(f"a skill has at most {MOST_FILES} files of {MOST_BYTES} bytes together")
    return sorted(found)


def _head(folder: Path) -> str:
    try:
        lines = (folder / DOCUMENT).read_text().splitlines()
    except UnicodeDecodeError:
        raise UnusableContent(f"{DOCUMENT} is not UTF-8 text") from None
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    head = "\n".join(lines[: end + 1])
    if len(head) > _LONGEST_HEAD:
        raise UnusableContent(
            f"{DOCUMENT}: the fields between the '---' lines exceed {_LONGEST_HEAD} characters; shorten them"
        )
    return head
