"""The cost of tokens by the declared price. There is no cost without a price."""

from decimal import Decimal

from fleetwright_agent.config.model import Price

_MILLION = Decimal(1_000_000)


def cost_usd(
    price: Price | None,
    *,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> Decimal | None:
    """The US dollars of one call; `input_tokens` includes tokens that were read from or written to a cache."""
    if price is None:
        return None
    usual = price.input_per_million
    read = usual if price.cached_input_per_million is None else price.cached_input_per_million
    write = usual if price.cache_write_per_million is None else price.cache_write_per_million
    fresh = max(0, input_tokens - cache_read_tokens - cache_write_tokens)
    total = fresh * usual + cache_read_tokens * read + cache_write_tokens * write
    return (total + output_tokens * price.output_per_million) / _MILLION
