"""The contract of the stored usage of model calls and of running turns."""

from decimal import Decimal

import pytest
from tests.agent_image.storage.conformance.conftest import Restart, SettableClock

from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.usage import (
    NOBODY,
    DailyUsage,
    HourlyUsage,
    ModelCallUsage,
    TaskUsageLine,
    TotalUsage,
    UsageSum,
)

CALL = ModelCallUsage("m", "turn", "a", 10, 2, 3, 1, Decimal("0.25"))
UNPRICED = ModelCallUsage("m", "turn", "a", 1, 1)
LINE = TaskUsageLine("a", "t", {"line": 1}, call="c1")


async def test_put_stores_the_sum_and_the_line_together(storage: Storage) -> None:
    await storage.usage.put(CALL, LINE)
    await storage.usage.put(UNPRICED, TaskUsageLine("a", "t", {"line": 2}))
    assert await storage.usage.since(0) == UsageSum(2, 11, 3, 3, 1, 1, Decimal("0.25"))
    assert await storage.inflight.of("a", "t") == [{"line": 1, "call": "c1"}, {"line": 2}]


async def test_put_is_stored_before_later_writes(storage: Storage) -> None:
    storage.usage.put(CALL, LINE)
    await storage.inflight.add("a", "t", {"line": 2})
    assert [body["line"] for body in await storage.inflight.of("a", "t")] == [1, 2]


@pytest.mark.parametrize(
    ("call", "charged"), [pytest.param("c1", True, id="a stored call"), pytest.param("c2", False, id="another call")]
)
async def test_has_charged_finds_the_cost_of_a_call(storage: Storage, call: str, charged: bool) -> None:
    await storage.usage.put(CALL, LINE)
    assert await storage.usage.has_charged("a", "t", call) is charged
    assert not await storage.usage.has_charged("b", "t", call)


async def test_sums_are_kept_by_hour_and_caller(storage: Storage, clock: SettableClock) -> None:
    clock.seconds = 7200.0
    await storage.usage.put(CALL, LINE)
    clock.seconds = 10800.0
    await storage.usage.put(CALL, LINE)
    await storage.usage.put(ModelCallUsage("n", "summary", "b", 5, 5), TaskUsageLine("b", "u", {}))
    assert (await storage.usage.since(10800.0)).calls == 2
    hours = await storage.usage.of("a")
    assert [(each.hour, each.model, each.purpose) for each in hours] == [(7200.0, "m", "turn"), (10800.0, "m", "turn")]
    assert hours[0] == HourlyUsage(7200.0, "m", "turn", UsageSum(1, 10, 2, 3, 1, 0, Decimal("0.25")))
    assert {model: each.calls for model, each in (await storage.usage.of_this_life()).items()} == {"m": 2, "n": 1}


async def test_daily_sums_the_hours_of_each_caller(storage: Storage, clock: SettableClock) -> None:
    day = 86400.0
    for seconds in (day - 1, day, day + 7200):
        clock.seconds = seconds
        await storage.usage.put(CALL, LINE)
    await storage.usage.put(ModelCallUsage("n", "summary", "b", 5, 5), TaskUsageLine("b", "u", {}))
    twice = UsageSum(2, 20, 4, 6, 2, 0, Decimal("0.50"))
    other = UsageSum(1, 5, 5, 0, 0, 1, Decimal(0))
    later = [DailyUsage(day, "a", "m", "turn", twice), DailyUsage(day, "b", "n", "summary", other)]
    assert await storage.usage.daily(day + 1) == later
    first, *rest = await storage.usage.daily(0)
    assert (first.day, first.sum.calls, rest) == (0.0, 1, later)


async def test_totals_sum_all_processes_and_hours(storage: Storage, clock: SettableClock, restart: Restart) -> None:
    """The pair of model and caller that appeared first comes first."""
    first = ModelCallUsage("n", "summary", "z", 5, 5)
    for seconds, call in ((0.0, first), (7200.0, CALL)):
        clock.seconds = seconds
        await storage.usage.put(call, LINE)
    storage = (await restart()).storage
    clock.seconds = 86400.0
    for call in (CALL, first, UNPRICED):
        await storage.usage.put(call, LINE)
    assert await storage.usage.totals() == [
        TotalUsage("n", "summary", "z", UsageSum(2, 10, 10, 0, 0, 2, Decimal(0))),
        TotalUsage("m", "turn", "a", UsageSum(3, 21, 5, 6, 2, 1, Decimal("0.50"))),
    ]


async def test_erasure_moves_the_totals_of_a_caller(storage: Storage) -> None:
    for caller in ("a", "b", "c"):
        await storage.usage.put(ModelCallUsage("m", "turn", caller, 10, 2), TaskUsageLine(caller, "t", {}))
    for caller in ("a", "b"):
        await storage.owners.erase(ErasureTarget(caller, ""), tasks=["t"])
    found = {each.caller: each.sum.input_tokens for each in await storage.usage.totals()}
    assert found == {"c": 10, NOBODY: 20}


async def test_call_sizes_replace_the_stored_ones(storage: Storage) -> None:
    assert await storage.usage.call_sizes() is None
    storage.usage.put_call_sizes({"smallest": ["0.1", 12]})
    storage.usage.put_call_sizes({"smallest": ["0.1", 7]})
    assert await storage.usage.call_sizes() == {"smallest": ["0.1", 7]}


async def test_task_outcomes_replace_the_stored_ones(storage: Storage) -> None:
    assert await storage.usage.task_outcomes() is None
    storage.usage.put_task_outcomes({"": [[True, "0.1"]]})
    storage.usage.put_task_outcomes({"": [[True, "0.1"], [False, "0"]]})
    assert await storage.usage.task_outcomes() == {"": [[True, "0.1"], [False, "0"]]}


async def test_begin_deletes_earlier_lines_and_ended_turns(storage: Storage) -> None:
    await storage.inflight.add("a", "old", {"n": 1})
    storage.inflight.end("a", "old", at=10.0)
    await storage.inflight.add("a", "t", {"n": 2})
    storage.inflight.begin("a", "t", before=20.0)
    storage.inflight.put("a", "t", {"n": 3})
    await storage.inflight.settled("a", "t")
    assert await storage.inflight.of("a", "t") == [{"n": 3}]
    assert await storage.inflight.tasks() == [("a", "t")]
    await storage.inflight.forget("a", "t")
    assert await storage.inflight.tasks() == []
