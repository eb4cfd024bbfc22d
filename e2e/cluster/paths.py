"""The folders everything here lives in. Refuses to create any of them."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
STATE = CHECKOUT / "build" / "cluster"
"""Running processes and their files: belongs to one checkout, `down` deletes it."""


def cache() -> Path:
    """What is costly to make and belongs to the machine: programs, base images, Debian packages."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fleetwright"
