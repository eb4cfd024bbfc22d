"""A thread that wakes agents at the gateway's request, and looks once a second for agents that may sleep."""

import queue
import threading
from collections.abc import Callable
from typing import Final

_LOOK_SECONDS: Final = 1.0


class SleepLoop:
    """One thread starts all woken agents.

    The thread lives as long as these agents, because a process ends with the thread that started it.
    """

    def __init__(self, *, wake: Callable[[str], None], look: Callable[[], None]) -> None:
        """Args: `wake` starts one agent. `look` puts idle agents to sleep. Both run on the thread."""
        self._wake = wake
        self._look = look
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sleep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def request(self, name: str) -> None:
        """Ask for an agent, from any thread. A request for an agent that is awake has no effect."""
        self._requests.put(name)

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                name = self._requests.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._look()
                continue
            if name is None:
                return
            self._wake(name)
