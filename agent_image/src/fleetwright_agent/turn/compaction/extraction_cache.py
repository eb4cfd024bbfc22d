"""What was read of a conversation, so that no message is read twice and a compaction finds most of it read.

Reading takes its time with a long conversation, so it is done off the loop, while the model is at work. Bounded: of a
few conversations, and of messages that no summary stands for. Refuses: deciding what is kept of it.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from langchain_core.messages import AnyMessage

from fleetwright_agent.turn.compaction import extraction
from fleetwright_agent.turn.compaction.ledger import Entry

_MOST: Final = 8


class Reading:
    """Of one conversation; called from any thread."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._pages: dict[str, extraction.Page] = {}
        self._over: list[str] = []
        self._words: Counter[str] = Counter()
        self._alone = Lock()

    @property
    def words(self) -> Counter[str]:
        """How often each word is used in all that was read."""
        return self._words

    def read(self, messages: Sequence[AnyMessage], *, behind: int, most: int | None = None) -> None:
        """What is new of the conversation, at most so many messages; of the first `behind` only the words."""
        with self._alone:
            while self._over:
                self._pages.pop(self._over.pop(), None)
            new = [each for each in enumerate(messages) if each[1].id not in self._read]
            for index, message in new[:most]:
                page = extraction.page_of(message)
                self._words.update(page.words)
                if not message.id:
                    continue
                self._read.add(message.id)
                if index >= behind:
                    self._pages[message.id] = page

    def found(self, messages: Sequence[AnyMessage]) -> list[Entry]:
        """The entries of some messages."""
        known = (self._pages.get(message.id or "") for message in messages)
        read = [page or extraction.page_of(message) for message, page in zip(messages, known, strict=True)]
        return extraction.found(messages, read)

    def forget(self, messages: Sequence[AnyMessage]) -> None:
        """A summary stands for them by now. Letting go takes its time as well: it is done when more is read."""
        self._over += [message.id or "" for message in messages]


class Readings:
    """Of the conversations that were read last, by their threads."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._readings: OrderedDict[str, Reading] = OrderedDict()

    def of(self, thread: str) -> Reading:
        reading = self._readings.setdefault(thread, Reading())
        self._readings.move_to_end(thread)
        while len(self._readings) > self._most:
            self._readings.popitem(last=False)
        return reading

    def clear(self) -> None:
        self._readings.clear()
