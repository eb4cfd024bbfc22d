"""The cost of model calls, grouped by agent, caller, model, purpose or day. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fleetwright_cli.cluster.tables import render, visible

GROUPS: Final = ("agent", "caller", "model", "day", "purpose")
_COUNTS: Final = {
    "calls": "calls",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "unpricedCalls": "unpriced",
}


@dataclass(frozen=True, slots=True)
class CostSum:
    """The sum of many model calls; `unpriced` counts those without a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    unpriced: int = 0
    usd: Decimal = Decimal(0)

    def __add__(self, other: "CostSum") -> "CostSum":
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS.values()}
        return CostSum(**counts, usd=self.usd + other.usd)

    @property
    def document(self) -> dict[str, Any]:
        return {**{key: getattr(self, name) for key, name in _COUNTS.items()}, "usd": f"{self.usd:f}"}


Key = tuple[str, ...]


def group_costs(rows: Iterable[Mapping[str, Any]], by: Sequence[str]) -> dict[Key, CostSum]:
    """Return the sums for each combination of the groups, sorted. A row is one of `/admin/costs` with its agent."""
    sums: dict[Key, CostSum] = {}
    for row in rows:
        key = tuple(visible(str(row.get(name) or "-")) for name in by)
        sums[key] = sums.get(key, CostSum()) + _sum(row)
    return dict(sorted(sums.items()))


def total(sums: Mapping[Key, CostSum]) -> CostSum:
    return sum(sums.values(), CostSum())


def cost_table(sums: Mapping[Key, CostSum], by: Sequence[str]) -> str:
    """Return the sums for people, with the total in the last row."""
    head = (*(name.upper() for name in by), "CALLS", "INPUT", "OUTPUT", "UNPRICED", "USD")
    rows = [(*key, *_cells(each)) for key, each in sums.items()]
    last = ("total", *("" for _ in by[1:]), *_cells(total(sums)))
    return render([head, *rows, last])


def cost_document(sums: Mapping[Key, CostSum], by: Sequence[str]) -> dict[str, Any]:
    """Return the sums as data, for programs."""
    rows = [{**dict(zip(by, key, strict=True)), **each.document} for key, each in sums.items()]
    return {"by": list(by), "rows": rows, "total": total(sums).document}


def _cells(cost: CostSum) -> tuple[str, ...]:
    counts = (cost.calls, cost.input_tokens, cost.output_tokens, cost.unpriced)
    return (*map(str, counts), f"{cost.usd:.4f}")


def _sum(row: Mapping[str, Any]) -> CostSum:
    counts = {name: _count(row.get(key)) for key, name in _COUNTS.items()}
    try:
        usd = Decimal(str(row.get("usd") or 0))
    except InvalidOperation:
        usd = Decimal(0)
    return CostSum(**counts, usd=usd if usd.is_finite() else Decimal(0))


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
