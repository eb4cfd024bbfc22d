"""Cost accounting of an agent: every model call is admitted, counted and recorded here.

Before a call, the budgets are checked for the maximum cost of the call. The amount stays reserved until the call ends,
so that concurrent calls cannot overspend together. Another module decides how a turn with an exhausted budget ends.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fleetwright_agent.config.budgets import Budget
from fleetwright_agent.config.model import OtherModel, Price
from fleetwright_agent.protocol.frames import TurnRequest, Usage
from fleetwright_agent.storage.open_model_calls import OpenModelCalls
from fleetwright_agent.storage.usage import TaskUsageLine, UsageStore
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.cost.budget_report import budget_report
from fleetwright_agent.turn.cost.budgets import BudgetUsage, BudgetWindow, cheaper, exceeded, too_small, window
from fleetwright_agent.turn.cost.known_calls import KnownCalls
from fleetwright_agent.turn.cost.task_usage import body_of, usage_from
from fleetwright_agent.turn.cost.usage import CostAccount, cost_usd, entry_of, maximum_usage, usage_of
from fleetwright_agent.turn.cost.usage_counters import UsageCounters

if TYPE_CHECKING:
    # For type checking only: the status page imports this module, but LangChain is loaded later, by the first task.
    from langchain_core.messages import AIMessage

_log = logging.getLogger(__name__)


class OverBudget(Exception):  # noqa: N818 - the name states the condition
    """The call does not fit in this budget before its window ends."""

    def __init__(self, full: BudgetWindow, *, alone: bool = False) -> None:
        """Args: `alone` is True if the call would not even fit into an unused budget."""
        super().__init__(full.name)
        self.full = full
        self.alone = alone


class CostAccounting:
    def __init__(
        self,
        budgets: Sequence[Budget],
        ledger: UsageStore,
        metrics: Metrics,
        *,
        open_calls: OpenModelCalls | None = None,
        now: Callable[[], float],
    ) -> None:
        """Args:
        open_calls: Records calls before they are made; without it, interrupted calls are not charged.
        now: Seconds since the epoch.
        """
        self._calls = open_calls
        self._charging: set[str] = set()
        """Recorded calls whose cost is being written to disk."""
        self._budgets = tuple(budgets)
        self._ledger = ledger
        self._metrics = metrics
        self._now = now
        self._windows: dict[Budget, BudgetWindow] = {}
        self._running = BudgetUsage()
        self._known_calls = KnownCalls(ledger, now=now)
        self._turning = asyncio.Lock()
        self._counters = UsageCounters(metrics)

    @property
    def has_budgets(self) -> bool:
        return bool(self._budgets)

    @property
    def has_downgrade(self) -> bool:
        """True if a budget requires a cheaper model from some fraction on."""
        return any(budget.downgrade is not None for budget in self._budgets)

    async def cheaper(self) -> OtherModel | None:
        """The cheaper model that a budget currently requires; None if no budget does."""
        return cheaper(await self._current(), running=self._running)

    @asynccontextmanager
    async def reserved(
        self,
        price: Price | None,
        *,
        tokens_in: int,
        tokens_out: int,
        minimum_prompt: Callable[[], int] | None = None,
    ) -> AsyncIterator[None]:
        """Reserve the maximum cost of a call until the call has ended.

        Args:
            price: The price of the model.
            tokens_in: The estimated tokens of the prompt.
            tokens_out: The limit of the output in tokens.
            minimum_prompt: Returns a lower bound in tokens for the prompt with which any task begins; None if tasks may
                begin with a cheaper call.

        Raises:
            OverBudget: The call does not fit into a budget.
        """
        windows = await self._current()
        most = maximum_usage(price, tokens_in=tokens_in, tokens_out=tokens_out)
        if full := exceeded(windows, running=self._running, call=most):
            prompt = None if minimum_prompt is None else min(minimum_prompt(), tokens_in)
            first = None if prompt is None else maximum_usage(price, tokens_in=prompt, tokens_out=tokens_out)
            self._known_calls.refuse(most, minimum_first_call=first)
            raise OverBudget(full, alone=too_small(full.budget, most))
        if windows:
            self._known_calls.admit(most, since=_start(windows))
        self._running += most
        try:
            yield
        finally:
            self._running -= most

    @contextmanager
    def recorded(self, account: CostAccount, turn: TurnRequest, *, tokens_in: int) -> Iterator[str]:
        """Record a call until it has ended. If the process dies before that, the next process charges an estimate.

        Args: `tokens_in` is the size of the prompt; the estimate includes no output tokens.

        Returns: The id of the call, for `charge`.
        """
        call = uuid4().hex
        cost = cost_usd(account.price, input_tokens=tokens_in, output_tokens=0)
        estimate = Usage(account.model, tokens_in, 0, cost_usd=cost, purpose=account.purpose, estimated=True)
        if self._calls is None:
            yield ""
            return
        self._calls.begin(call, {"owner": turn.owner, "task": turn.task_id, "usage": body_of(estimate)})
        try:
            yield call
        finally:
            if call not in self._charging:
                self._end(call)

    async def resume_counters(self) -> None:
        """Raise the counters of tokens and costs to the stored sums of all processes.

        Raises:
            MemoryUnusable: The ledger cannot be read.
        """
        self._counters.resume(await self._ledger.totals())

    async def charge_interrupted(self) -> None:
        """Charge an estimate, at most once, for each call that was interrupted when an earlier process ended.

        Raises:
            MemoryUnusable: The ledger cannot be read.
        """
        interrupted = 0
        try:
            left = self._calls.left() if self._calls else {}
        except OSError as error:
            _log.error("the records of interrupted model calls cannot be read: %s", error)
            return
        for call, about in left.items():
            owner, task_id = about["owner"], about["task"]
            # The earlier process may have stored the cost before it ended.
            if await self._ledger.has_charged(owner, task_id, call):
                self._end(call)
            elif usage := _readable(about["usage"]):
                self._put(usage, owner, task_id, call=call)
                interrupted += 1
            else:
                self._end(call)
        if interrupted:
            _log.warning(
                "model calls were interrupted by the end of the last process; estimates are charged",
                extra={"calls": interrupted},
            )

    def charge(
        self, message: "AIMessage", account: CostAccount, turn: TurnRequest, *, estimated: bool = False, call: str = ""
    ) -> Usage:
        """Charge the tokens and cost of one reply to the ledger and the metrics, and return the same usage as a frame.

        Args: `call` is the id of a recorded call; `estimated` is True if the provider reported no usage.
        """
        used = replace(usage_of(message, account), estimated=estimated)
        self._put(used, turn.owner, turn.task_id, call=call)
        return used

    def _put(self, used: Usage, owner: str, task_id: str, *, call: str = "") -> None:
        entry = entry_of(used, owner)
        writing = self._ledger.put(entry, TaskUsageLine(owner, task_id, body_of(used), call))
        if call:
            self._charging.add(call)
            writing.add_done_callback(partial(self._charged, call))
        self._counters.count(entry, estimated=used.estimated)
        if used.cost_usd is not None:
            writing.add_done_callback(partial(self._count_caller, owner, used.cost_usd))
        spent = BudgetUsage(used.cost_usd or Decimal(0), used.input_tokens + used.output_tokens)
        for each in self._windows.values():
            each.spent += spent
            self._tell(each)

    def _count_caller(self, owner: str, usd: Decimal, writing: "asyncio.Future[None]") -> None:
        if not writing.cancelled() and writing.exception() is None:
            self._counters.count_caller(owner, usd)

    def _charged(self, call: str, writing: "asyncio.Future[None]") -> None:
        """End the record of a call whose cost is on disk. After a failed write, the next process needs the record."""
        self._charging.discard(call)
        if not writing.cancelled() and writing.exception() is None:
            self._end(call)

    def _end(self, call: str) -> None:
        if self._calls is not None:
            self._calls.end(call)

    async def aclose(self) -> None:
        if self._calls is not None:
            self._calls.aclose()

    async def look(self) -> None:
        """Open the current budget windows, so that the remaining budget is visible before the first call.

        Raises:
            MemoryUnusable: The ledger cannot be read.
        """
        await self._current()

    def refuses_tasks(self) -> bool:
        """Return True if a budget is used up, or if the first call of no task fits into its rest."""
        return any(
            each.has_used(Decimal(1), BudgetUsage()) or self._known_calls.is_exhausted(each) for each in self._opened()
        )

    def report(self) -> list[dict[str, Any]]:
        """The budgets for the status page; empty before the windows are opened."""
        current, calls = self._opened(), self._known_calls
        return [
            budget_report(each, fits=calls.fit(each, running=self._running), exhausted=calls.is_exhausted(each))
            for each in current
        ]

    def _opened(self) -> list[BudgetWindow]:
        now = datetime.fromtimestamp(self._now(), UTC)
        return [each for each in self._windows.values() if each.opened and each.ends > now]

    async def _current(self) -> list[BudgetWindow]:
        """Return the current budget windows. A window is read from the ledger when this process first uses it."""
        if not self._budgets:
            return []
        async with self._turning:
            now = datetime.fromtimestamp(self._now(), UTC)
            current = {budget: window(budget.period, now) for budget in self._budgets}
            # Read the sizes before a window becomes visible in the report.
            await self._known_calls.read(since=min(begins for begins, _ in current.values()).timestamp())
            for budget, (begins, ends) in current.items():
                known = self._windows.get(budget)
                if known is None or known.begins != begins:
                    await self._open(budget, BudgetWindow(budget, begins, ends))
            return list(self._windows.values())

    async def _open(self, budget: Budget, opened: BudgetWindow) -> None:
        # Register the window before the read. Charges made during the read are added to the window, not to the result.
        self._windows[budget] = opened
        try:
            former = await self._ledger.since(opened.begins.timestamp())
        except BaseException:
            del self._windows[budget]
            raise
        opened.spent += BudgetUsage(former.usd, former.input_tokens + former.output_tokens)
        opened.opened = True
        self._tell(opened)

    def _tell(self, each: BudgetWindow) -> None:
        budget = each.budget
        if budget.usd is not None:
            left = max(Decimal(0), budget.usd - each.spent.usd)
            self._metrics.budget_remaining_usd.labels(budget.period.value).set(float(left))
        if budget.tokens is not None:
            left_tokens = max(0, budget.tokens - each.spent.tokens)
            self._metrics.budget_remaining_tokens.labels(budget.period.value).set(left_tokens)
        if not each.warned and each.has_used(budget.warn_at, BudgetUsage()):
            each.warned = True
            _log.warning("budget nearly used up", extra={"budget": each.name, "resets": each.ends.isoformat()})


def _start(windows: Sequence[BudgetWindow]) -> float:
    """The start of the longest window, in seconds since the epoch."""
    return min(each.begins for each in windows).timestamp()


def _readable(recorded: Any) -> Usage | None:
    """Return the usage of a recorded call; None if another version of the runtime wrote it in another format."""
    try:
        return usage_from(recorded)
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        _log.error("an interrupted model call is not charged, because its record cannot be read: %s", error)
        return None
