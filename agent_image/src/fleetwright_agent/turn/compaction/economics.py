"""Computes the cost of changing the prompt, and after how many model calls the change has paid for itself. Pure.

A provider bills cached tokens at a fraction of the price of uncached tokens. A change in the middle of a prompt
invalidates the cache of everything after the change. The unit of all amounts is the price of an uncached input token.
"""

import math
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.config.model import Price


@dataclass(frozen=True, slots=True)
class PriceRatios:
    """Prices per token, divided by the price of an uncached input token."""

    cache_read: float
    cache_write: float
    output: float


USUAL: Final = PriceRatios(cache_read=0.1, cache_write=1.25, output=5.0)
"""The usual rates of providers with a prompt cache, if no price is declared."""


def rates(price: Price | None) -> PriceRatios:
    """Return the price ratios of the declared price. Without a cache price, the plain input price applies.

    Cost accounting applies the same ratios.
    """
    if price is None or price.input_per_million == 0:
        return USUAL
    base = price.input_per_million
    cached = base if price.cached_input_per_million is None else price.cached_input_per_million
    written = base if price.cache_write_per_million is None else price.cache_write_per_million
    return PriceRatios(float(cached / base), float(written / base), float(price.output_per_million / base))


def prune_payback(rates: PriceRatios, *, freed: int, after: int) -> float:
    """Return the number of calls after which removing `freed` tokens has paid for itself.

    The removal costs one uncached read of the `after` tokens that follow the removed ones.
    """
    if freed <= 0:
        return math.inf
    rewrite = max(0.0, rates.cache_write - rates.cache_read) * after
    if rates.cache_read == 0:
        return math.inf if rewrite else 0.0
    return rewrite / (rates.cache_read * freed)


def summary_payback(rates: PriceRatios, *, leaving: int, summary: int, kept: int, warm: bool) -> float:
    """Return the number of calls after which a summary has paid for itself.

    The summary replaces `leaving` tokens, and `kept` tokens follow it.
    """
    if summary >= leaving or rates.cache_read == 0:
        return math.inf
    reading = rates.cache_read if warm else 1.0
    spent = reading * leaving + (rates.output + rates.cache_write) * summary
    spent += max(0.0, rates.cache_write - rates.cache_read) * kept
    return spent / (rates.cache_read * (leaving - summary))


def cheapest_trigger(rates: PriceRatios, *, floor: int, growth: float, summary: int, kept: int) -> int | None:
    """Return the prompt size at which summarising costs least in the long run, or None if nothing is cached.

    Args:
        rates: The prices.
        floor: Tokens that remain after each compaction.
        growth: Tokens that each call adds.
        summary: Tokens of a summary.
        kept: Tokens after the summary, which the provider reads uncached.
    """
    if rates.cache_read in {0.0, 1.0}:
        return None
    once = (rates.output + rates.cache_write) * summary + (rates.cache_write - rates.cache_read) * kept
    return round(floor + math.sqrt(2 * growth * (floor + max(0.0, once) / rates.cache_read)))


def other_is_cheaper(own: Price | None, other: Price | None, *, prefix: int, transcript: int, summary: int) -> bool:
    """Return True if it is cheaper that another model reads a transcript.

    The alternative is that the agent's own model reads its cached prefix.
    """
    if own is None or other is None:
        return False
    cached = own.input_per_million if own.cached_input_per_million is None else own.cached_input_per_million
    mine = cached * prefix + own.output_per_million * summary
    return other.input_per_million * transcript + other.output_per_million * summary < mine
