"""What tokens cost by the declared price. Refuses to guess: no price, no money."""

from decimal import Decimal

from fleetwright_agent.config import Price

_MILLION = Decimal(1_000_000)


def cost_usd(price: Price | None, *, input_tokens: int, output_tokens: int, cache_read_tokens: int) -> Decimal | None:
    """US dollars of one call; `input_tokens` includes the cached ones (T-15, PA-053)."""
    if price is None:
        return None
    cached = price.input_per_million if price.cached_input_per_million is None else price.cached_input_per_million
    fresh = max(0, input_tokens - cache_read_tokens)
    total = fresh * price.input_per_million + cache_read_tokens * cached + output_tokens * price.output_per_million
    return total / _MILLION
