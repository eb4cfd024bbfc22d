"""The uv that image builds use. `locks/sync` installs it, and its version is pinned by hash."""

import hashlib
import os
from pathlib import Path

from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.progress import ClusterError


def folder() -> Path:
    lock = (CHECKOUT / "locks" / "uv.txt").read_bytes()
    found = cache() / f"uv-{hashlib.sha256(lock).hexdigest()[:12]}" / "bin"
    if not os.access(found / "uv", os.X_OK):
        raise ClusterError("uv is missing: run locks/sync")
    return found
