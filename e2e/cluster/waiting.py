"""Wait for a condition, with a deadline and a reason."""

import time
from collections.abc import Callable

from e2e.cluster.progress import ClusterError
from tests.support.machine import machine_factor


def until(
    condition: Callable[[], bool],
    *,
    what: str,
    seconds: float,
    alive: Callable[[], None] = lambda: None,
    pause: float = 0.05,
) -> None:
    """Wait until the condition holds, for these seconds multiplied by the factor of the machine.

    `alive` raises an error if the condition can no longer become true.
    """
    seconds *= machine_factor()
    deadline = time.monotonic() + seconds
    while not condition():
        alive()
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not after {seconds:.0f} s")
        time.sleep(pause)
