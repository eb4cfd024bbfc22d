"""Computes the cost of a change of the prompt, and after how many model calls it has paid for itself. Pure.

A provider bills cached tokens at a fraction of the price of fresh ones. A change in the middle of a prompt invalidates
the cache behind it. All amounts are in fresh input tokens.
"""

import math
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.config.model import Price


@dataclass(frozen=True, slots=True)
class PriceRatios:
    """Prices per token, relative to a fresh input token."""

    cache_read: float
    cache_write: float
    output: float


USUAL: Final = PriceRatios(cache_read=0.1, cache_write=1.25, output=5.0)
"""The usual rates of providers with a prompt cache, if no price is declared."""


def rates(price: Price | None) -> PriceRatios:
    """The rates by the declared price, as the ledger charges. Without a cache price, the plain input price applies."""
    if price is None or price.input_per_million == 0:
        return USUAL
    base = price.input_per_million
    cached = base if price.cached_input_per_million is None else price.cached_input_per_million
    written = base if price.cache_write_per_million is None else price.cache_write_per_million
    return PriceRatios(float(cached / base), float(written / base), float(price.output_per_million / base))


def prune_payback(rates: PriceRatios, *, freed: int, after: int) -> float:
    """Calls until removing `freed` tokens has paid for rewriting the `after` tokens behind them to the cache."""
    if freed <= 0:
        return math.inf
    rewrite = max(0.0, rates.cache_write - rates.cache_read) * after
    if rates.cache_read == 0:
        return math.inf if rewrite else 0.0
    return rewrite / (rates.cache_read * freed)


def summary_payback(rates: PriceRatios, *, leaving: int, summary: int, kept: int, warm: bool) -> float:
    """Calls until a summary of `leaving` tokens before `kept` ones has paid for itself."""
    if summary >= leaving or rates.cache_read == 0:
        return math.inf
    reading = rates.cache_read if warm else 1.0
    spent = reading * leaving + (rates.output + rates.cache_write) * summary
    spent += max(0.0, rates.cache_write - rates.cache_read) * kept
    return spent / (rates.cache_read * (leaving - summary))


def cheapest_trigger(rates: PriceRatios, *, floor: int, growth: float, summary: int, kept: int) -> int | None:
    """The prompt size at which summarising costs least in the long run, for any window; None if nothing is cached.

    Args:
        rates: The prices.
        floor: Tokens that remain after each compaction.
        growth: Tokens that each call adds.
        summary: Tokens of a summary.
        kept: Tokens behind the summary, which the provider reads uncached.
    """
    if rates.cache_read in {0.0, 1.0}:
        return None
    once = (rates.output + rates.cache_write) * summary + (rates.cache_write - rates.cache_read) * kept
    return round(floor + math.sqrt(2 * growth * (floor + max(0.0, once) / rates.cache_read)))


def other_is_cheaper(own: Price | None, other: Price | None, *, prefix: int, transcript: int, summary: int) -> bool:
    """Return True if another model reading a transcript costs less than the own model reading its cached prefix."""
    if own is None or other is None:
        return False
    cached = own.input_per_million if own.cached_input_per_million is None else own.cached_input_per_million
    mine = cached * prefix + own.output_per_million * summary
    return other.input_per_million * transcript + other.output_per_million * summary < mine
