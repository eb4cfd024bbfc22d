"""A provider that bills. It counts tokens by characters, remembers prompts, and knows what is in its cache."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

_REMEMBERED = 8


@dataclass(frozen=True)
class Prices:
    """Prices relative to one fresh input token."""

    name: str
    cache_read: float
    cache_write: float
    output: float


TABLES = (Prices("cheap cache", 0.1, 1.25, 5.0), Prices("dear cache", 0.25, 1.0, 4.0))


def tokens(text: str) -> int:
    return -(-len(text) // 4)


@dataclass
class Taken:
    """One model call."""

    summary: bool
    total: int
    known: int
    """The cached tokens of the prompt."""
    new: int
    """The tokens at the end of the prompt that are new since the conversation's previous call."""
    broken: bool
    """True if the prompt does not begin with the prompt of the conversation's previous call."""
    output: int = 0

    def cost(self, prices: Prices) -> float:
        fresh = self.total - self.known
        return fresh * prices.cache_write + self.known * prices.cache_read + self.output * prices.output


@dataclass
class Provider:
    """Serves prompts as lists of texts, with tools and system first. A prefix of whole texts comes from the cache."""

    window: int | None = None
    """The context window in tokens. A longer prompt is refused."""
    calls: int = 0
    summaries: int = 0
    refused: int = 0
    fresh: int = 0
    cached: int = 0
    output: int = 0
    breaks: int = 0
    """Number of the conversation's prompts that do not begin with the previous prompt."""
    largest: int = 0
    log: list["Taken"] = field(default_factory=list)
    _seen: OrderedDict[tuple[int, ...], list[int]] = field(default_factory=OrderedDict)
    _last: list[str] = field(default_factory=list)

    def take(self, prompt: Sequence[str], *, summary: bool) -> tuple[int, int]:
        """Return the tokens of the prompt and the cached ones among them.

        Raises:
            ValueError: if the prompt exceeds the window.
        """
        hashes = [hash(text) for text in prompt]
        sizes = [tokens(text) for text in prompt]
        total = sum(sizes)
        if self.window is not None and total > self.window:
            self.refused += 1
            raise ValueError("maximum context length is exceeded")
        shared = max((_common(hashes, earlier) for earlier in self._seen.values()), default=0)
        known = sum(sizes[:shared])
        self._seen[tuple(hashes)] = hashes
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        self.fresh += total - known
        self.cached += known
        self.summaries += summary
        broken = not summary and bool(self._last) and list(prompt[: len(self._last)]) != self._last
        self.log.append(Taken(summary, total, known, _new(prompt, self._last), broken))
        if not summary:
            self.calls += 1
            self.largest = max(self.largest, total)
            self.breaks += broken
            self._last = list(prompt)
        return total, known

    def give(self, text: str) -> int:
        self.output += tokens(text)
        self.log[-1].output += tokens(text)
        return tokens(text)

    def cost(self, prices: Prices) -> float:
        """Return the cost in fresh input tokens."""
        return self.fresh * prices.cache_write + self.cached * prices.cache_read + self.output * prices.output


@dataclass(frozen=True)
class Pass:
    """One change of the beginning of the prompt."""

    size: int
    """Tokens that the prompt would have had without the change."""
    spent: float
    """Cost of the summary and of the tokens that would have been read from the cache, in fresh input tokens."""
    saved: float
    """Saving per subsequent call."""
    calls: int
    """Number of subsequent calls in the conversation."""

    @property
    def paid(self) -> bool:
        """Return True if the pass broke even."""
        return self.saved * self.calls >= self.spent


def changes(log: Sequence[Taken], prices: Prices) -> list[Pass]:
    own = [index for index, taken in enumerate(log) if not taken.summary]
    found: list[Pass] = []
    for place in (place for place, index in enumerate(own) if log[index].broken):
        before, after = log[own[place - 1]], log[own[place]]
        asked = sum(taken.cost(prices) for taken in log[own[place - 1] + 1 : own[place]])
        anew = max(0, after.total - after.known - after.new) * (prices.cache_write - prices.cache_read)
        size = before.total + after.new
        saved = (size - after.total) * prices.cache_read
        found.append(Pass(size, asked + anew, saved, len(own) - place))
    return found


def _new(prompt: Sequence[str], before: Sequence[str]) -> int:
    known = set(before)
    return sum(map(tokens, takewhile(lambda text: text not in known, reversed(prompt))))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
