"""The usage and the cost of one model call. Without a price, the cost is unknown."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from fleetwright_agent.config.model import Price
from fleetwright_agent.protocol.frames import Purpose, Usage
from fleetwright_agent.storage.usage import ModelCallUsage
from fleetwright_agent.turn.cost.budgets import BudgetUsage

if TYPE_CHECKING:
    # For type checking only: the status page imports this module, but LangChain is loaded later, by the first task.
    from langchain_core.messages import AIMessage


_MILLION = Decimal(1_000_000)


def cost_usd(
    price: Price | None,
    *,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> Decimal | None:
    """Return the cost of one call in US dollars. `input_tokens` includes tokens read from or written to a cache."""
    if price is None:
        return None
    usual = price.input_per_million
    read = usual if price.cached_input_per_million is None else price.cached_input_per_million
    write = usual if price.cache_write_per_million is None else price.cache_write_per_million
    fresh = max(0, input_tokens - cache_read_tokens - cache_write_tokens)
    total = fresh * usual + cache_read_tokens * read + cache_write_tokens * write
    return (total + output_tokens * price.output_per_million) / _MILLION


def maximum_usage(price: Price | None, *, tokens_in: int, tokens_out: int) -> BudgetUsage:
    """Return the largest possible cost of a call. Args: `tokens_out` is the limit of its output."""
    # Writing tokens to the provider's cache may cost more than plain input.
    dear = partial(cost_usd, price, input_tokens=tokens_in, output_tokens=tokens_out)
    usd = max(dear() or Decimal(0), dear(cache_write_tokens=tokens_in) or Decimal(0))
    return BudgetUsage(usd, tokens_in + tokens_out)


@dataclass(frozen=True, slots=True)
class CostAccount:
    """The model, the price and the purpose for which a call is charged."""

    model: str
    price: Price | None
    purpose: Purpose


def usage_of(message: "AIMessage", account: CostAccount) -> Usage:
    usage = message.usage_metadata
    if not usage:
        # Without usage, the cost is None: an unknown cost must not appear as zero.
        return Usage(account.model, 0, 0, purpose=account.purpose)
    details = usage.get("input_token_details") or {}
    read, written = details.get("cache_read", 0) or 0, details.get("cache_creation", 0) or 0
    tokens_in, tokens_out = usage["input_tokens"], usage["output_tokens"]
    cost = cost_usd(
        account.price,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return Usage(account.model, tokens_in, tokens_out, read, written, cost, account.purpose)


def entry_of(used: Usage, caller: str) -> ModelCallUsage:
    """Return the entry of a call in the ledger."""
    return ModelCallUsage(
        model=used.model,
        purpose=used.purpose.value,
        caller=caller,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        usd=used.cost_usd,
    )
