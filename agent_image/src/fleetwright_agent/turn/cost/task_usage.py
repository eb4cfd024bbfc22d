"""Stores the usage of a turn until the end of its task is stored. A process that resumes the turn reports the total.

No usage is counted twice: usage from before a question to a person is already stored in the task with the question.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final

from fleetwright_agent.protocol.frames import EarlierToolCall, Frame, PeerCost, Purpose, ToolStart, TurnRequest, Usage
from fleetwright_agent.storage.usage import InflightUsage

_KEPT_SECONDS: Final = 60.0
"""The usage stays stored for at least this time after the turn has ended. The task's end is stored much earlier."""


class TaskUsage:
    def __init__(self, spending: InflightUsage, *, clock: Callable[[], float] = time.time) -> None:
        """Args: `clock` returns the seconds since the epoch."""
        self._spending = spending
        self._clock = clock

    async def begin(self, request: TurnRequest) -> list[Frame]:
        """Return the usage that an earlier process reported for this request, and start recording."""
        if request.restarted:
            return list(await self.of(request.owner, request.task_id))
        self.open(request.owner, request.task_id)
        return []

    def open(self, owner: str, task_id: str) -> None:
        """Start recording the usage of a turn. The usage of earlier turns is already stored with the task."""
        self._spending.begin(owner, task_id, before=self._clock() - _KEPT_SECONDS)

    async def of(self, owner: str, task_id: str) -> list[Usage | PeerCost | EarlierToolCall]:
        """The recorded frames of a turn that has not ended."""
        return [_frame(body) for body in await self._spending.of(owner, task_id)]

    async def tokens_of(self, request: TurnRequest) -> int:
        """Return the tokens that the task had used before this process resumed it."""
        earlier = await self.of(request.owner, request.task_id) if request.restarted else []
        return request.prior_tokens + sum(each.tokens for each in earlier if isinstance(each, Usage))

    async def note(self, request: TurnRequest, frame: Frame) -> None:
        """Store a frame, and return when it is on disk.

        `CostAccounting` has already written the cost of a model call.
        """
        if isinstance(frame, PeerCost):
            await self._spending.add(request.owner, request.task_id, body_of(frame))
        elif isinstance(frame, ToolStart):
            self._spending.put(request.owner, request.task_id, {"tool": frame.call_id})
        elif isinstance(frame, Usage):
            await self._spending.settled(request.owner, request.task_id)

    def close(self, request: TurnRequest) -> None:
        """Mark the turn as ended, or as waiting for a person."""
        self._spending.end(request.owner, request.task_id, at=self._clock())


def body_of(frame: Usage | PeerCost) -> dict[str, Any]:
    cost = frame.cost_usd
    return {**asdict(frame), "cost_usd": None if cost is None else str(cost)}


def _frame(body: dict[str, Any]) -> Usage | PeerCost | EarlierToolCall:
    if "tool" in body:
        return EarlierToolCall(body["tool"])
    if "peer" in body:
        return PeerCost(body["peer"], Decimal(body["cost_usd"]))
    return usage_from(body)


def usage_from(body: dict[str, Any]) -> Usage:
    """Return the usage that `body_of` wrote."""
    cost = body["cost_usd"]
    known = {"cost_usd": None if cost is None else Decimal(cost), "purpose": Purpose(body["purpose"])}
    return Usage(**{name: value for name, value in {**body, **known}.items() if name != "call"})
