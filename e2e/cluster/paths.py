"""The folders that the clusters use. This module creates none of them."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
STATE = CHECKOUT / "build" / "cluster"
"""The state of running processes. It belongs to one checkout, and `down` deletes it."""


def cache() -> Path:
    """The folder for expensive files that all checkouts of a machine share: programs, base images, Debian packages."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fleetwright"
