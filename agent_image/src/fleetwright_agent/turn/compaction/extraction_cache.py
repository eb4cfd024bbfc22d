"""A cache of extracted messages, so that no message is extracted twice and a compaction takes little time.

Extracting a long conversation is slow, so it runs in a thread while the model works. The cache is bounded: it holds a
few conversations, and only their messages after the summary. The cache does not decide which entries a summary keeps.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from langchain_core.messages import AnyMessage

from fleetwright_agent.turn.compaction import extraction
from fleetwright_agent.turn.compaction.ledger import LedgerEntry

_MOST: Final = 8


class ExtractionCache:
    """The extracted messages of one conversation. It is thread-safe."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._pages: dict[str, extraction.MessageExtract] = {}
        self._over: list[str] = []
        self._words: Counter[str] = Counter()
        self._alone = Lock()

    @property
    def words(self) -> Counter[str]:
        """The number of uses of each word in all extracted messages."""
        return self._words

    def read(self, messages: Sequence[AnyMessage], *, behind: int, most: int | None = None) -> None:
        """Extract up to `most` new messages. Of the first `behind` messages, the cache keeps only the words."""
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

    def found(self, messages: Sequence[AnyMessage]) -> list[LedgerEntry]:
        """The entries of these messages."""
        known = (self._pages.get(message.id or "") for message in messages)
        read = [page or extraction.page_of(message) for message, page in zip(messages, known, strict=True)]
        return extraction.found(messages, read)

    def forget(self, messages: Sequence[AnyMessage]) -> None:
        """Drop messages that a summary has replaced. Freeing their memory is slow, so the next `read` does it."""
        self._over += [message.id or "" for message in messages]


class ExtractionCaches:
    """The most recently used conversations, by thread."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._readings: OrderedDict[str, ExtractionCache] = OrderedDict()

    def of(self, thread: str) -> ExtractionCache:
        reading = self._readings.setdefault(thread, ExtractionCache())
        self._readings.move_to_end(thread)
        while len(self._readings) > self._most:
            self._readings.popitem(last=False)
        return reading

    def clear(self) -> None:
        self._readings.clear()
