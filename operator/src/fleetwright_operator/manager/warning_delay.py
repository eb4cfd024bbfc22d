"""Delays Warnings. A condition that ends before its Warning is due was only progress, and gets no Event.

Users apply a folder file by file, so an Agent may exist shortly before the Skill that it names.
"""

import asyncio
from collections.abc import Callable

from fleetwright_kube.port import Object
from fleetwright_operator.status.conditions import READY
from fleetwright_operator.status.events import Notice

SECONDS = 5.0


class WarningDelay:
    def __init__(self, announce: Callable[[Object], None], *, seconds: float = SECONDS) -> None:
        self._record = announce
        self._seconds = seconds
        self._held: dict[tuple[str, str], asyncio.TimerHandle] = {}
        """By uid and condition: the delayed Warning."""

    def submit(self, uid: str, notice: Notice, event: Object, *, stands: Callable[[], bool]) -> None:
        """Send an Event now. A Warning is sent later, if `stands` still returns true then.

        A condition that recovers before its Warning was sent gets no Event for the recovery either.
        """
        key = (uid, notice.condition)
        if held := self._held.pop(key, None):
            held.cancel()
        if notice.warning:
            self._held[key] = asyncio.get_running_loop().call_later(self._seconds, self._fire, key, event, stands)
        elif held is None or notice.condition == READY:
            self._record(event)

    def _fire(self, key: tuple[str, str], event: Object, stands: Callable[[], bool]) -> None:
        del self._held[key]
        if stands():
            self._record(event)
