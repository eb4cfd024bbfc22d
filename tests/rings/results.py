"""The results of earlier runs, so that a run with RESUME=1 skips rings that are green on the same tree."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.rings.catalogue import Ring
from tests.rings.runner import Result


def tree_of(checkout: Path) -> str:
    """Return git's hash of the files in the checkout, including those that are changed or new and not committed."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        known = subprocess.run(
            ["git", "rev-parse", "--path-format=absolute", "--git-path", "index"],
            cwd=checkout, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        if Path(known).exists():
            shutil.copy(known, index)
        environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
        subprocess.run(["git", "add", "--all"], cwd=checkout, env=environment, check=True, capture_output=True)
        written = subprocess.run(
            ["git", "write-tree"], cwd=checkout, env=environment, check=True, capture_output=True, text=True
        )
    return written.stdout.strip()


class Results:
    """A file for each tree, with a line for each ring that ended on it."""

    def __init__(self, folder: Path, tree: str) -> None:
        self._file = folder / f"{tree}.jsonl"

    def green_rings(self) -> set[str]:
        """Return the keys of the rings whose last result on this tree is green."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        last = {record["ring"]: record["green"] for record in map(json.loads, lines)}
        return {key for key, green in last.items() if green}

    def add(self, result: Result) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "ring": ring_key(result.ring),
            "green": result.is_green,
            "seconds": round(result.seconds),
            "passed": result.passed,
            "failed": result.failed,
            "unstable": [found.test for found in result.unstable],
        }
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")


def ring_key(ring: Ring) -> str:
    """Return the name of a ring with a digest of its command, because a part of a ring is not the whole."""
    command = " ".join(ring.command[1:])
    return f"{ring.name}-{hashlib.sha256(command.encode()).hexdigest()[:8]}"
