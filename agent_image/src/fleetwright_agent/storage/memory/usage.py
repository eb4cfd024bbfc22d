"""The cost of model calls and the usage of running turns, in memory."""

import asyncio
import json
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, Final

from fleetwright_agent.storage.memory.tables import MemoryTables, committed
from fleetwright_agent.storage.usage import (
    DailyUsage,
    HourlyUsage,
    ModelCallUsage,
    TaskUsageLine,
    TotalUsage,
    UsageSum,
)

_HOUR: Final = 3600
_HOURS_OF_DAY: Final = 24


class MemoryUsageStore:
    def __init__(self, tables: MemoryTables, *, now: Callable[[], float]) -> None:
        """`now` is in seconds since the epoch."""
        self._tables = tables
        self._now = now
        tables.processes += 1
        self._process = tables.processes

    def put(self, entry: ModelCallUsage, line: TaskUsageLine) -> "asyncio.Future[None]":
        key = (self._process, int(self._now()) // _HOUR, entry.model, entry.purpose, entry.caller)
        usage = self._tables.usage
        usage[key] = usage.get(key, UsageSum()) + entry.sum
        _add(self._tables, line.owner, line.task_id, line.stored_body)
        return committed()

    async def has_charged(self, owner: str, task_id: str, call: str) -> bool:
        lines = self._tables.inflight.get((owner, task_id), [])
        return any(json.loads(line).get("call") == call for line in lines)

    async def since(self, seconds: float) -> UsageSum:
        hour = int(seconds) // _HOUR
        return _total(each for key, each in self._tables.usage.items() if key[1] >= hour)

    def put_call_sizes(self, body: Any) -> None:
        self._tables.call_sizes = json.dumps(body)

    async def call_sizes(self) -> Any:
        return None if self._tables.call_sizes is None else json.loads(self._tables.call_sizes)

    def put_task_outcomes(self, body: Any) -> None:
        self._tables.task_outcomes = json.dumps(body)

    async def task_outcomes(self) -> Any:
        return None if self._tables.task_outcomes is None else json.loads(self._tables.task_outcomes)

    async def of_this_life(self) -> dict[str, UsageSum]:
        ours = {key: each for key, each in self._tables.usage.items() if key[0] == self._process}
        models = dict.fromkeys(key[2] for key in ours)
        return {model: _total(each for key, each in ours.items() if key[2] == model) for model in models}

    async def totals(self) -> list[TotalUsage]:
        sums: dict[tuple[str, str, str], UsageSum] = {}
        for (_, _, *about), each in self._tables.usage.items():
            model, purpose, caller = about
            sums[model, purpose, caller] = sums.get((model, purpose, caller), UsageSum()) + each
        return [TotalUsage(*about, each) for about, each in sums.items()]

    async def of(self, caller: str) -> list[HourlyUsage]:
        rows = sorted(
            ((key, each) for key, each in self._tables.usage.items() if key[-1] == caller),
            key=lambda row: (row[0][1], row[0][0]),
        )
        return [HourlyUsage(float(hour * _HOUR), model, purpose, each) for (_, hour, model, purpose, _), each in rows]

    async def daily(self, since: float) -> list[DailyUsage]:
        day = _HOUR * _HOURS_OF_DAY
        sums: dict[tuple[int, str, str, str], UsageSum] = {}
        for (_, hour, model, purpose, caller), each in self._tables.usage.items():
            key = (hour // _HOURS_OF_DAY, caller, model, purpose)
            if key[0] >= int(since) // day:
                sums[key] = sums.get(key, UsageSum()) + each
        return [
            DailyUsage(float(number * day), caller, model, purpose, sums[number, caller, model, purpose])
            for number, caller, model, purpose in sorted(sums)
        ]


class MemoryInflightUsage:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def begin(self, owner: str, task_id: str, *, before: float) -> None:
        old = [key for key, at in self._tables.ended.items() if at < before]
        for key in [(owner, task_id), *old]:
            self._tables.inflight.pop(key, None)
            self._tables.ended.pop(key, None)

    async def add(self, owner: str, task_id: str, body: Any) -> None:
        _add(self._tables, owner, task_id, body)

    def put(self, owner: str, task_id: str, body: Any) -> None:
        _add(self._tables, owner, task_id, body)

    async def settled(self, owner: str, task_id: str) -> None:
        """Return at once: every write is done when its call returns."""

    async def of(self, owner: str, task_id: str) -> list[Any]:
        return [json.loads(line) for line in self._tables.inflight.get((owner, task_id), [])]

    async def tasks(self) -> list[tuple[str, str]]:
        return list(self._tables.inflight)

    def end(self, owner: str, task_id: str, *, at: float) -> None:
        if (owner, task_id) in self._tables.inflight:
            self._tables.ended[owner, task_id] = at

    async def forget(self, owner: str, task_id: str) -> None:
        self._tables.inflight.pop((owner, task_id), None)


def _add(tables: MemoryTables, owner: str, task_id: str, body: Any) -> None:
    tables.inflight.setdefault((owner, task_id), []).append(json.dumps(body))


def _total(sums: Any) -> UsageSum:
    return reduce(add, sums, UsageSum())
