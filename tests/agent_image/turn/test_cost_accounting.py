"""Cost accounting: consistent sums, budget windows that reset, and concurrent calls that cannot exceed a budget."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from prometheus_client import CollectorRegistry

from fleetwright_agent.config.budgets import Budget, Period
from fleetwright_agent.config.model import Price
from fleetwright_agent.protocol.frames import Purpose, TurnRequest
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_calls_file import FileOpenModelCalls
from fleetwright_agent.storage.sqlite.usage_store import SqliteUsageStore
from fleetwright_agent.storage.usage import NOBODY, UsageSum
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.cost.accounting import CostAccounting, OverBudget
from fleetwright_agent.turn.cost.budgets import window
from fleetwright_agent.turn.cost.usage import CostAccount

PRICE = Price.model_validate({"inputPerMillion": "1.000001", "outputPerMillion": "2", "cachedInputPerMillion": "0.1"})
NOON = datetime(2026, 2, 28, 12, 30, tzinfo=UTC).timestamp()
TURN = TurnRequest("client:a", "c", "t", "x")


def reply(tokens_in: int, tokens_out: int, cached: int = 0) -> AIMessage:
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return AIMessage("", usage_metadata={**usage, "input_token_details": {"cache_read": cached}})  # type: ignore[typeddict-item] # a dict all the same


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


@pytest.fixture
def open_accounting(database: Database) -> Callable[..., Any]:
    clock = [NOON]

    def opened(*budgets: dict[str, Any]) -> tuple[CostAccounting, SqliteUsageStore, Metrics, list[float]]:
        ledger, metrics = SqliteUsageStore(database, now=lambda: clock[0]), Metrics(CollectorRegistry())
        made = [Budget.model_validate(budget) for budget in budgets]
        return CostAccounting(made, ledger, metrics, now=lambda: clock[0]), ledger, metrics, clock

    return opened


@pytest.mark.parametrize(
    ("period", "moment", "begins", "ends"),
    [
        pytest.param(Period.HOUR, "2026-02-28T12:30", "2026-02-28T12:00", "2026-02-28T13:00", id="an hour"),
        pytest.param(Period.DAY, "2026-02-28T23:59", "2026-02-28T00:00", "2026-03-01T00:00", id="a day"),
        pytest.param(Period.MONTH, "2026-02-01T00:00", "2026-02-01T00:00", "2026-03-01T00:00", id="a short month"),
        pytest.param(Period.MONTH, "2026-12-31T23:00", "2026-12-01T00:00", "2027-01-01T00:00", id="the last month"),
    ],
)
def test_budget_window_follows_the_calendar(period: Period, moment: str, begins: str, ends: str) -> None:
    when = [datetime.fromisoformat(f"{text}+00:00") for text in (moment, begins, ends)]
    assert window(period, when[0]) == (when[1], when[2])


async def test_usage_store_equals_the_metrics_and_survives_a_restart(open_accounting: Any) -> None:
    for life in range(2):
        accounting, ledger, metrics, _ = open_accounting()
        for number in range(50):
            purpose = Purpose.SUMMARY if number % 5 == 0 else Purpose.ANSWER
            model = "big" if number % 3 else "small"
            accounting.charge(reply(1000 + number, 7 * number, 500), CostAccount(model, PRICE, purpose), TURN)
        accounting.charge(reply(10, 1), CostAccount("free", None, Purpose.ANSWER), TURN)
        for model, summed in (await ledger.of_this_life()).items():
            value = metrics.registry.get_sample_value
            assert value("fleetwright_llm_tokens_total", {"model": model, "direction": "input"}) == summed.input_tokens
            assert (
                value("fleetwright_llm_tokens_total", {"model": model, "direction": "output"}) == summed.output_tokens
            )
            cost = value("fleetwright_llm_cost_usd_total", {"model": model}) or 0
            assert abs(cost - float(summed.usd)) < 1e-9, model
            assert (value("fleetwright_llm_unpriced_calls_total", {"model": model}) or 0) == summed.unpriced
        assert (await ledger.since(0)).calls == 51 * (life + 1)
        spent = sum(each.usd for each in (await ledger.of_this_life()).values())
        told = metrics.registry.get_sample_value("fleetwright_caller_cost_usd_total", {"caller": "client:a"})
        assert abs(float(spent) - (told or 0)) < 1e-9


async def test_counters_resume_from_the_stored_usage(open_accounting: Any) -> None:
    """Some providers report fewer input tokens than cached ones. An erased caller has no series."""
    accounting, ledger, _, _ = open_accounting()
    accounting.charge(reply(10, 7, 500), CostAccount("m", PRICE, Purpose.SUMMARY), TURN)
    accounting.charge(reply(10, 1), CostAccount("m", PRICE, Purpose.ANSWER), replace(TURN, owner=NOBODY))
    await ledger.since(0)
    next_accounting, _, metrics, _ = open_accounting()
    await next_accounting.resume_counters()
    value = metrics.registry.get_sample_value
    assert value("fleetwright_llm_tokens_total", {"model": "m", "direction": "input"}) == 20
    assert not value("fleetwright_compaction_llm_tokens_total", {"direction": "input", "cached": "false"})
    assert value("fleetwright_caller_cost_usd_total", {"caller": "client:a"}) > 0
    assert value("fleetwright_caller_cost_usd_total", {"caller": NOBODY}) is None


async def test_budget_too_small_for_a_call_refuses_no_tasks(open_accounting: Any) -> None:
    """No reset helps such a call, and smaller calls may fit."""
    accounting, _, _, _ = open_accounting({"period": "Hour", "usd": "0.01"})
    await accounting.look()
    with pytest.raises(OverBudget):
        async with accounting.reserved(PRICE, tokens_in=10**9, tokens_out=1, minimum_prompt=lambda: 10**9):
            pass
    assert not accounting.refuses_tasks()
    accounting.charge(reply(0, 40_000), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    assert accounting.refuses_tasks()


async def test_budget_survives_a_restart_and_resets_with_its_window(open_accounting: Any) -> None:
    budget = {"period": "Hour", "usd": "0.01"}
    accounting, _, _, clock = open_accounting(budget)
    await accounting.look()
    accounting.charge(reply(0, 4000), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    accounting, _, metrics, _ = open_accounting(budget)
    with pytest.raises(OverBudget) as over:
        async with accounting.reserved(PRICE, tokens_in=0, tokens_out=1001):
            pass
    assert over.value.full.name == "0.01 US dollars an hour"
    async with accounting.reserved(PRICE, tokens_in=0, tokens_out=1000):
        pass
    remaining = metrics.registry.get_sample_value("fleetwright_budget_remaining_usd", {"period": "Hour"})
    assert remaining == pytest.approx(0.002)
    clock[0] += 1800
    async with accounting.reserved(PRICE, tokens_in=0, tokens_out=5000):
        pass
    remaining = metrics.registry.get_sample_value("fleetwright_budget_remaining_usd", {"period": "Hour"})
    assert remaining == pytest.approx(0.01)


async def test_budget_reservations_prevent_concurrent_overspending(open_accounting: Any) -> None:
    accounting, ledger, _, _ = open_accounting({"period": "Day", "tokens": 10_000}, {"period": "Month", "usd": "1"})
    refused: list[str] = []

    async def one() -> None:
        try:
            async with accounting.reserved(PRICE, tokens_in=600, tokens_out=400):
                await asyncio.sleep(0.01)
                accounting.charge(reply(600, 400), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
        except OverBudget as over:
            refused.append(over.full.name)

    await asyncio.gather(*(one() for _ in range(40)))
    assert (await ledger.since(0)).calls == 10
    assert refused == ["10000 tokens a day"] * 30


async def test_budget_error_names_the_later_reset(open_accounting: Any) -> None:
    accounting, _, _, _ = open_accounting({"period": "Hour", "tokens": 1}, {"period": "Month", "tokens": 1})
    with pytest.raises(OverBudget) as over:
        async with accounting.reserved(PRICE, tokens_in=1, tokens_out=1):
            pass
    assert over.value.full.name == "1 tokens a month"


async def test_budget_reservation_assumes_the_highest_prompt_price(open_accounting: Any) -> None:
    """Cache writes cost more than cache reads, so the reservation assumes cache writes."""
    price = PRICE.model_copy(update={"cache_write_per_million": Decimal(10)})
    accounting, *_ = open_accounting({"period": "Day", "usd": "0.5"})
    async with accounting.reserved(price, tokens_in=49_000, tokens_out=100):
        pass
    with pytest.raises(OverBudget):
        async with accounting.reserved(price, tokens_in=51_000, tokens_out=100):
            pass


async def test_budget_is_not_exceeded_once_a_smaller_call_fits(open_accounting: Any) -> None:
    accounting, *_ = open_accounting({"period": "Day", "tokens": 1000})
    accounting.charge(reply(500, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    with pytest.raises(OverBudget) as over:
        async with accounting.reserved(PRICE, tokens_in=600, tokens_out=100):
            pass
    assert not over.value.alone
    assert [each["exceeded"] for each in accounting.report()] == [True]
    async with accounting.reserved(PRICE, tokens_in=100, tokens_out=100):
        pass
    assert [each["exceeded"] for each in accounting.report()] == [False]


async def _refuse(accounting: CostAccounting, *, tokens_in: int, minimum_prompt: int | None) -> None:
    with pytest.raises(OverBudget):
        async with accounting.reserved(
            PRICE,
            tokens_in=tokens_in,
            tokens_out=100,
            minimum_prompt=None if minimum_prompt is None else lambda: minimum_prompt,
        ):
            pass


@pytest.mark.parametrize(
    ("limit", "refused", "exhausted"),
    [
        pytest.param(1000, [], False, id="no call was refused"),
        pytest.param(1000, [(900, 500)], True, id="an empty conversation does not fit either"),
        pytest.param(1000, [(900, 300)], False, id="an empty conversation fits"),
        pytest.param(1000, [(900, 500), (900, 300)], False, id="another model needs less"),
        pytest.param(1000, [(450, 500)], True, id="the provider reports fewer tokens than the estimate"),
        pytest.param(1000, [(900, None)], False, id="no task begins with the call"),
        pytest.param(550, [(900, 500)], False, id="larger than the whole budget"),
    ],
)
async def test_budget_is_exhausted_if_no_task_can_begin(
    open_accounting: Any, limit: int, refused: list[tuple[int, int | None]], exhausted: bool
) -> None:
    accounting, _, _, clock = open_accounting({"period": "Day", "tokens": limit})
    await accounting.look()
    accounting.charge(reply(500, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    for tokens_in, minimum_prompt in refused:
        await _refuse(accounting, tokens_in=tokens_in, minimum_prompt=minimum_prompt)
    assert [each["exhausted"] for each in accounting.report()] == [exhausted]
    clock[0] += 86400
    await accounting.look()
    assert [each["exhausted"] for each in accounting.report()] == [False], "a new day has begun"


async def test_budget_is_not_exhausted_once_a_smaller_call_fits(open_accounting: Any) -> None:
    accounting, *_ = open_accounting({"period": "Day", "tokens": 1000})
    accounting.charge(reply(500, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    await _refuse(accounting, tokens_in=900, minimum_prompt=500)
    async with accounting.reserved(PRICE, tokens_in=400, tokens_out=100):
        assert [each["exhausted"] for each in accounting.report()] == [False]


async def test_budget_is_not_exhausted_by_running_calls(open_accounting: Any) -> None:
    accounting, *_ = open_accounting({"period": "Day", "tokens": 1000})
    async with accounting.reserved(PRICE, tokens_in=700, tokens_out=100):
        await _refuse(accounting, tokens_in=300, minimum_prompt=300)
        assert [(each["exceeded"], each["exhausted"]) for each in accounting.report()] == [(True, False)]


async def _make_call(accounting: CostAccounting, *, reserved: int, used: int) -> None:
    with suppress(OverBudget):
        async with accounting.reserved(PRICE, tokens_in=reserved, tokens_out=0):
            accounting.charge(reply(used, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)


@pytest.mark.parametrize(
    ("calls", "limit", "exceeded"),
    [
        pytest.param([(1200, 1200)] * 3, 4000, True, id="the smallest call does not fit"),
        pytest.param([(400, 400), (3200, 3200), (1200, 0)], 4000, True, id="the last call was refused"),
        pytest.param([(400, 400), (3200, 3200), (1200, 0), (400, 0)], 4000, False, id="a smaller call fitted since"),
        pytest.param([(1200, 1200)] * 4, 5000, False, id="the budget was raised"),
        pytest.param([(4000, 4000)], 4000, True, id="the budget is spent"),
        pytest.param([(1200, 100)], 4000, False, id="the smallest call fits"),
        pytest.param([], 4000, False, id="no call is known"),
    ],
)
async def test_budget_status_after_a_restart_uses_stored_calls(
    open_accounting: Any, calls: list[tuple[int, int]], limit: int, exceeded: bool
) -> None:
    before, *_ = open_accounting({"period": "Day", "tokens": 4000})
    for reserved, used in calls:
        await _make_call(before, reserved=reserved, used=used)
    after, *_ = open_accounting({"period": "Day", "tokens": limit})
    await after.look()
    assert [each["exceeded"] for each in after.report()] == [exceeded]


@pytest.mark.parametrize(
    ("renewed", "exceeded"),
    [pytest.param(False, False, id="known from yesterday only"), pytest.param(True, True, id="made again today")],
)
async def test_budget_status_ignores_calls_of_earlier_windows(
    open_accounting: Any, renewed: bool, exceeded: bool
) -> None:
    budget = {"period": "Day", "tokens": 4000}
    before, _, _, clock = open_accounting(budget)
    await _make_call(before, reserved=1200, used=1200)
    clock[0] += 86_400
    before.charge(reply(2400, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    if renewed:
        await _make_call(before, reserved=1200, used=1200)
    else:
        before.charge(reply(1200, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    after, *_ = open_accounting(budget)
    await after.look()
    assert [each["exceeded"] for each in after.report()] == [exceeded]


async def test_budget_is_reported_once_its_usage_was_read(database: Database) -> None:
    class Slow(SqliteUsageStore):
        async def since(self, seconds: float) -> UsageSum:
            asked.set()
            await read.wait()
            return await super().since(seconds)

    asked, read = asyncio.Event(), asyncio.Event()
    budget = Budget.model_validate({"period": "Day", "tokens": 4000})
    accounting = CostAccounting(
        [budget], Slow(database, now=lambda: NOON), Metrics(CollectorRegistry()), now=lambda: NOON
    )
    looking = asyncio.create_task(accounting.look())
    await asked.wait()
    assert accounting.report() == []
    read.set()
    await looking
    assert [each["spentTokens"] for each in accounting.report()] == [0]


async def test_call_sizes_in_an_unknown_format_are_not_used(
    open_accounting: Any, caplog: pytest.LogCaptureFixture
) -> None:
    accounting, ledger, *_ = open_accounting({"period": "Day", "tokens": 4000})
    ledger.put_call_sizes({"at": NOON, "smallest": "9000 tokens"})
    await accounting.look()
    assert [each["exceeded"] for each in accounting.report()] == [False]
    assert "sizes of earlier model calls are not used" in caplog.text


async def test_budget_error_marks_a_call_that_no_window_can_hold(open_accounting: Any) -> None:
    accounting, *_ = open_accounting({"period": "Day", "tokens": 1000})
    with pytest.raises(OverBudget) as over:
        async with accounting.reserved(PRICE, tokens_in=1000, tokens_out=1):
            pass
    assert over.value.alone


async def test_budget_downgrade_applies_from_its_fraction_on(open_accounting: Any) -> None:
    downgrade = {"at": "0.5", "model": {"name": "small", "contextWindow": 100}}
    accounting, _, _, clock = open_accounting({"period": "Hour", "tokens": 1000, "downgrade": downgrade})
    assert await accounting.cheaper() is None
    accounting.charge(reply(500, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    taken = await accounting.cheaper()
    assert taken is not None
    assert taken.name == "small"
    clock[0] += 3600
    assert await accounting.cheaper() is None


async def test_caller_cost_metric_groups_callers_beyond_its_limit(open_accounting: Any) -> None:
    accounting, ledger, metrics, _ = open_accounting()
    for number in range(60):
        turn = TurnRequest(f"client:{number}", "c", "t", "x")
        accounting.charge(reply(0, 500_000), CostAccount("m", PRICE, Purpose.ANSWER), turn)
    await ledger.since(0)
    assert metrics.registry.get_sample_value("fleetwright_caller_cost_usd_total", {"caller": "(others)"}) == 10


async def test_usage_store_sums_money_exactly(open_accounting: Any) -> None:
    accounting, ledger, _, _ = open_accounting()
    for _ in range(1000):
        accounting.charge(reply(1, 0), CostAccount("m", PRICE, Purpose.ANSWER), TURN)
    assert (await ledger.since(0)).usd == Decimal("0.001000001")


def interrupted(
    path: Path, database: Database, *usages: dict[str, Any]
) -> tuple[CostAccounting, Metrics, FileOpenModelCalls]:
    """Return the cost accounting of a process whose predecessor ended during these calls."""
    former = FileOpenModelCalls(path)
    for number, usage in enumerate(usages):
        former.begin(str(number), {"owner": TURN.owner, "task": TURN.task_id, "usage": usage})
    former.aclose()
    calls, metrics = FileOpenModelCalls(path), Metrics(CollectorRegistry())
    return (
        CostAccounting([], SqliteUsageStore(database, now=lambda: NOON), metrics, open_calls=calls, now=lambda: NOON),
        metrics,
        calls,
    )


USED = {"model": "m", "input_tokens": 7, "output_tokens": 0, "cost_usd": None, "purpose": "answer", "estimated": True}


async def test_charge_interrupted_is_idempotent(tmp_path: Path, database: Database) -> None:
    accounting, metrics, calls = interrupted(tmp_path / "calls.jsonl", database, USED)
    await accounting.charge_interrupted()
    await accounting.charge_interrupted()
    await database.run(lambda _: None)
    assert metrics.registry.get_sample_value("fleetwright_llm_estimated_calls_total", {"model": "m"}) == 1
    assert calls.left() == {}


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param({**USED, "later": 1}, id="a field of a later version"),
        pytest.param({**USED, "cost_usd": "much"}, id="no amount"),
        pytest.param({**USED, "purpose": "other"}, id="another purpose"),
        pytest.param({}, id="nothing"),
        pytest.param(7, id="a number"),
    ],
)
async def test_charge_interrupted_skips_and_logs_unreadable_records(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture, usage: Any
) -> None:
    accounting, metrics, calls = interrupted(tmp_path / "calls.jsonl", database, usage, USED)
    await accounting.charge_interrupted()
    await database.run(lambda _: None)
    assert metrics.registry.get_sample_value("fleetwright_llm_estimated_calls_total", {"model": "m"}) == 1
    assert calls.left() == {}
    assert "its record cannot be read" in caplog.text
