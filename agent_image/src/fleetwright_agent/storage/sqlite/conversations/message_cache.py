"""A cache of decoded histories: a turn decodes only new messages, not the whole conversation.

Before a reader uses a cached history, it must check that the stored history still begins with the cached history. For
this, it compares the id at the position of the last cached message. This comparison does not detect a deletion before
that position, so code that deletes such messages must clear the cache. The limit on the size counts stored bytes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final

from langchain_core.messages import AnyMessage

_MOST_OF_ONE: Final = 2 * 1024 * 1024
_MOST: Final = 4 * 1024 * 1024
"""The limit in bytes for all histories together."""


@dataclass(frozen=True, slots=True)
class CachedHistory:
    """The cached beginning of a stored history."""

    messages: tuple[AnyMessage, ...] = ()
    size: int = 0
    """The size of the cached messages on disk, in bytes."""


class MessageCache:
    def __init__(self, *, most: int = _MOST, most_of_one: int = _MOST_OF_ONE) -> None:
        """Args: the limits in bytes for all histories and for one history. A longer history is decoded at each read."""
        self._most = most
        self._most_of_one = most_of_one
        self._known: OrderedDict[tuple[str, str], CachedHistory] = OrderedDict()

    def get(self, thread: str, ns: str) -> CachedHistory:
        return self._known.get((thread, ns), CachedHistory())

    def keep(self, thread: str, ns: str, known: CachedHistory) -> None:
        """Replace the cached history; the least recently used ones are evicted."""
        self._known.pop((thread, ns), None)
        if known.messages and known.size <= self._most_of_one:
            self._known[thread, ns] = known
        while sum(each.size for each in self._known.values()) > self._most:
            self._known.popitem(last=False)

    def clear(self) -> None:
        self._known.clear()

    def begun(self, thread: str, ns: str, history: Sequence[Any]) -> CachedHistory:
        """Return the cached part of a new history. If the new history begins differently, drop the cached history."""
        known = self.get(thread, ns)
        count = len(known.messages)
        # The messages are usually the same objects. The identity check takes a tenth of the time of a comparison.
        if count <= len(history) and all(map(is_, history, known.messages)):
            return known
        if [message.id for message in history[:count]] == [message.id for message in known.messages]:
            return known
        self.keep(thread, ns, CachedHistory())
        return CachedHistory()
