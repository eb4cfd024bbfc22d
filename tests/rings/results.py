"""The results of earlier runs, so that a run with RESUME=1 skips rings that are green on the same tree."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rings.catalogue import Ring
from tests.rings.runner import Result


def hash_tree(checkout: Path) -> str | None:
    """Return git's hash of the files in the checkout, including those that are changed or new and not committed.

    Return None if git is missing or cannot read the checkout, for example because it is an unpacked archive.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            known = Path(_git(checkout, "rev-parse", "--path-format=absolute", "--git-path", "index"))
            if known.exists():
                shutil.copy(known, index)
            _git(checkout, "add", "--all", index=index)
            return _git(checkout, "write-tree", index=index)
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(checkout: Path, *words: str, index: Path | None = None) -> str:
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)} if index else None
    done = subprocess.run(["git", *words], cwd=checkout, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class ResultStore:
    """A file for each tree, with a line for each ring that ended on it. Without git there are no results."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self._checkout = checkout
        self._tree = hash_tree(checkout)
        self._file = folder / f"{self._tree}.jsonl"

    @property
    def is_known(self) -> bool:
        """True if git can tell whether the tree has changed."""
        return self._tree is not None

    def read_green_rings(self) -> dict[str, list[str]]:
        """Return the keys of the rings whose last result on this tree is green, with their unstable tests."""
        lines = self._file.read_text().splitlines() if self.is_known and self._file.exists() else []
        last = {record["ring"]: record for record in map(json.loads, lines)}
        return {key: record["unstable"] for key, record in last.items() if record["green"]}

    def add(self, result: Result) -> None:
        """Record a result, unless the tree was changed in the meantime.

        Skipped tests may run elsewhere. Programs that a ring has built may be gone later.
        """
        if not self.is_known or not result.ring.is_recorded or hash_tree(self._checkout) != self._tree:
            return
        record = {
            "ring": ring_key(result.ring),
            "green": result.is_green and not result.skipped,
            "seconds": round(result.seconds),
            "passed": result.passed,
            "failed": result.failed,
            "unstable": [found.test for found in result.unstable],
        }
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")


def select_skipped(
    stages: Sequence[Sequence[Ring]], green: Mapping[str, list[str]], *, in_ci: bool
) -> dict[str, list[str]]:
    """Return the names of the rings that need not run again, with their unstable tests.

    Args:
        green: The keys of the green rings of earlier runs, with their unstable tests.
        in_ci: True if the last run has removed its cluster.
    """
    skipped = {ring.name: green[ring_key(ring)] for stage in stages for ring in stage if ring_key(ring) in green}
    names = {ring.name for stage in stages for ring in stage}
    if in_ci and "bench" in names - skipped.keys():
        # The benchmarks use the cluster that this ring leaves.
        skipped.pop("cluster", None)
    return skipped


def ring_key(ring: Ring) -> str:
    """Return the name of a ring with a digest of its command, because a part of a ring is not the whole."""
    command = " ".join(ring.command[1:])
    return f"{ring.name}-{hashlib.sha256(command.encode()).hexdigest()[:8]}"
