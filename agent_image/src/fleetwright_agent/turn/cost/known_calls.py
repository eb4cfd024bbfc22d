"""The sizes of earlier model calls, from which `/status` tells whether another call fits into a budget.

Known are the smallest call that was admitted, and the call that was refused last if no call was admitted since. The
sizes are stored, so that they survive a restart. A size from before all current budget windows is ignored at a start.

This module also keeps a lower bound for the first call of any task, taken from refused calls. The bound is not stored,
because another revision may need less. It is dropped when a call that is not larger is admitted.
"""

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from fleetwright_agent.storage.usage import UsageStore
from fleetwright_agent.turn.cost.budgets import BudgetUsage, BudgetWindow, too_small

_log = logging.getLogger(__name__)


class KnownCalls:
    def __init__(self, ledger: UsageStore, *, now: Callable[[], float]) -> None:
        """Args: `now` returns the seconds since the epoch."""
        self._ledger = ledger
        self._now = now
        self._smallest: BudgetUsage | None = None
        self._refused: BudgetUsage | None = None
        self._minimum_first_call: BudgetUsage | None = None
        self._stored_at: float | None = None
        """The time of the last write; None until the sizes were read."""

    async def read(self, *, since: float) -> None:
        """Read the sizes that an earlier process stored, once.

        Args: `since` is the start of the longest current window; older sizes are ignored.

        Raises:
            MemoryUnusable: The sizes cannot be read.
        """
        if self._stored_at is not None:
            return
        stored = await self._ledger.call_sizes() or {}
        try:
            self._stored_at = float(stored.get("at", 0))
            if self._stored_at >= since:
                self._smallest, self._refused = _parsed(stored.get("smallest")), _parsed(stored.get("refused"))
        except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            self._stored_at = 0.0
            _log.error("the sizes of earlier model calls are not used, because they cannot be read: %s", error)

    def admit(self, call: BudgetUsage, *, since: float) -> None:
        """Note a call that fits. Args: `since` is the start of the longest current window."""
        minimum = self._minimum_first_call
        if minimum is not None and minimum.least(call) == call:  # The call is not larger, so the bound was wrong.
            self._minimum_first_call = None
        smallest = call if self._smallest is None else self._smallest.least(call)
        outdated = self._stored_at is None or self._stored_at < since
        if outdated or self._refused is not None or smallest != self._smallest:
            self._smallest, self._refused = smallest, None
            self._store()

    def refuse(self, call: BudgetUsage, *, minimum_first_call: BudgetUsage | None = None) -> None:
        """Note a call that does not fit.

        Args: `minimum_first_call` is a lower bound for the first call of any task; None if a task may begin with a
            smaller call.
        """
        if minimum_first_call is not None:
            known = self._minimum_first_call
            self._minimum_first_call = minimum_first_call if known is None else known.least(minimum_first_call)
        if call != self._refused:
            self._refused = call
            self._store()

    def fit(self, window: BudgetWindow, *, running: BudgetUsage) -> bool:
        """Return False if a known call does not fit into the rest of the budget.

        A refused call must also fit beside the reservations of the running calls.
        """
        smallest_fits = self._smallest is None or window.fits(self._smallest)
        return smallest_fits and (self._refused is None or window.fits(running + self._refused))

    def is_exhausted(self, window: BudgetWindow) -> bool:
        """Return True if the first call of no task fits before the reset.

        Return False if it would not fit into the unused budget either, because then no reset helps.
        """
        first = self._minimum_first_call
        return first is not None and not window.fits(first) and not too_small(window.budget, first)

    def _store(self) -> None:
        self._stored_at = self._now()
        sizes = {"smallest": self._smallest, "refused": self._refused}
        written = {name: [str(size.usd), size.tokens] for name, size in sizes.items() if size is not None}
        self._ledger.put_call_sizes({"at": self._stored_at, **written})


def _parsed(stored: Any) -> BudgetUsage | None:
    if stored is None:
        return None
    usd, tokens = stored
    return BudgetUsage(Decimal(usd), int(tokens))
