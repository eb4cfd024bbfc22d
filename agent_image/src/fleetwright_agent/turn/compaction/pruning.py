"""Truncates the middle of old, long tool results. Selects them, and computes the savings and the shown text. Pure.

A truncated result never changes again. If the set of truncated results changed with each call, the provider would read
the whole prompt uncached every time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AnyMessage, ToolMessage

from fleetwright_agent.config.compaction import CompactionPrune
from fleetwright_agent.turn.compaction.economics import PriceRatios, prune_payback
from fleetwright_agent.turn.compaction.measure import estimate, estimate_text

_SKILL_TOOLS: Final = frozenset({"load_skill", "read_skill_file"})
FORCED_OVER: Final = 20_000
"""If the provider refuses the prompt, all results with more characters than this are truncated."""

Shape = tuple[int, int]
"""The number of characters that are kept at the beginning and at the end."""


@dataclass(frozen=True, slots=True)
class PruneBatch:
    """Results that are truncated together."""

    ids: tuple[str, ...]
    freed: int
    """The saved tokens."""
    after: int
    """Tokens after the first truncated result, which the provider must read uncached."""
    payback: float
    """Model calls until the truncation has paid for itself."""


def best_batch(
    messages: Sequence[AnyMessage],
    policy: CompactionPrune,
    rates: PriceRatios,
    *,
    before: int,
    pruned: Mapping[str, Shape],
    thrifty: bool,
) -> PruneBatch | None:
    """Select the results to truncate among the first `before` messages.

    Without `thrifty`, all candidates are selected. With `thrifty`, only the most profitable number of newest candidates
    is selected: the later the first truncated result is, the fewer tokens are read uncached.
    """
    candidates = [i for i in range(before) if _prunable(messages[i], policy, pruned)]
    if not candidates:
        return None
    sizes = [estimate([message]) for message in messages]
    best: PruneBatch | None = None
    worth = 0.0
    freed, after, behind = 0, 0, len(messages)
    chosen: list[str] = []
    for index in reversed(candidates):
        freed += _freed(messages[index], policy)
        chosen.insert(0, messages[index].id or "")
        after += sum(sizes[index:behind])
        behind = index
        batch = PruneBatch(tuple(chosen), freed, after - freed, prune_payback(rates, freed=freed, after=after - freed))
        gain = (
            rates.cache_read * freed * policy.max_payback_calls - (rates.cache_write - rates.cache_read) * batch.after
        )
        if not thrifty or best is None or gain > worth:
            best, worth = batch, gain
    return best


def shorten_results(messages: Sequence[AnyMessage], pruned: Mapping[str, Shape]) -> list[AnyMessage]:
    """Return the same messages, with the recorded truncations applied."""
    return [
        _cut(message, *shape)
        if isinstance(message, ToolMessage) and (shape := pruned.get(message.id or ""))
        else message
        for message in messages
    ]


def hardest(messages: Sequence[AnyMessage], policy: CompactionPrune) -> list[AnyMessage]:
    """Truncate every long result, for a model that needs no details."""
    return [
        _cut(message, policy.head, policy.tail)
        if isinstance(message, ToolMessage) and len(message.text) > policy.over_chars
        else message
        for message in messages
    ]


def oversized(messages: Sequence[AnyMessage], *, over: int = FORCED_OVER) -> tuple[str, ...]:
    """Return the ids of results with more than `over` characters. They are truncated as a last resort."""
    return tuple(
        message.id or "" for message in messages if isinstance(message, ToolMessage) and len(message.text) > over
    )


def _prunable(message: AnyMessage, policy: CompactionPrune, pruned: Mapping[str, Shape]) -> bool:
    return (
        isinstance(message, ToolMessage)
        and message.id not in pruned
        and len(message.text) > policy.over_chars
        and message.name not in _SKILL_TOOLS
        and message.name not in policy.except_tools
    )


def _freed(message: AnyMessage, policy: CompactionPrune) -> int:
    return estimate_text(message.text) - estimate_text(_cut_text(message.text, policy.head, policy.tail))


def _cut(message: ToolMessage, head: int, tail: int) -> ToolMessage:
    return message.model_copy(update={"content": _cut_text(message.text, head, tail)})


def _cut_text(text: str, head: int, tail: int) -> str:
    left_out = len(text) - head - tail
    if left_out <= 0:
        return text
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[… {left_out} characters are left out here and kept in the archive …]\n{end}"
