"""Wait for a condition, with a deadline and a reason."""

import time
from collections.abc import Callable

from e2e.cluster.progress import ClusterError


def until(
    condition: Callable[[], bool],
    *,
    what: str,
    seconds: float,
    alive: Callable[[], None] = lambda: None,
    pause: float = 0.05,
) -> None:
    """Wait until the condition holds. `alive` raises an error if the condition can no longer become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        alive()
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not after {seconds:.0f} s")
        time.sleep(pause)
