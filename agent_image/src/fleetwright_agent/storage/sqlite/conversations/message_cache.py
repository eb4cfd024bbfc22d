"""Histories as they were decoded last, so that a turn decodes what came since and not the whole conversation.

Who reads looks first whether the stored history still begins with the known one: its last message stands where it
stood. Whoever takes out of the middle says so, and everything is decoded anew. Bounded by the bytes that are stored.
Refuses: being believed without that look.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final

from langchain_core.messages import AnyMessage

_MOST_OF_ONE: Final = 2 * 1024 * 1024
_MOST: Final = 4 * 1024 * 1024
"""Bytes of all together."""


@dataclass(frozen=True, slots=True)
class Known:
    """The beginning of a stored history."""

    messages: tuple[AnyMessage, ...] = ()
    size: int = 0
    """Bytes on disk."""


class Histories:
    def __init__(self, *, most: int = _MOST, most_of_one: int = _MOST_OF_ONE) -> None:
        """Args: bytes of all histories together, and of one; a longer one is decoded at each read."""
        self._most = most
        self._most_of_one = most_of_one
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()

    def get(self, thread: str, ns: str) -> Known:
        return self._known.get((thread, ns), Known())

    def keep(self, thread: str, ns: str, known: Known) -> None:
        """In place of what was known; the ones that were not used for longest make room."""
        self._known.pop((thread, ns), None)
        if known.messages and known.size <= self._most_of_one:
            self._known[thread, ns] = known
        while sum(each.size for each in self._known.values()) > self._most:
            self._known.popitem(last=False)

    def clear(self) -> None:
        self._known.clear()

    def begun(self, thread: str, ns: str, history: Sequence[Any]) -> Known:
        """What is known of a new history; nothing, and it is forgotten, where it begins otherwise."""
        known = self.get(thread, ns)
        count = len(known.messages)
        # Mostly they are the very same objects, and to see that takes a tenth of the time.
        if count <= len(history) and all(map(is_, history, known.messages)):
            return known
        if [message.id for message in history[:count]] == [message.id for message in known.messages]:
            return known
        self.keep(thread, ns, Known())
        return Known()
