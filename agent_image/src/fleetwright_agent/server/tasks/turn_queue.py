"""The queue of turns: at most a fixed number of turns run at once, and one at a time for each owner and context.

Turns start by priority, and those of one priority in the order in which their messages were accepted. The turns of one
conversation always keep this order, so a conversation has the highest priority of its waiting turns. After a few turns
have overtaken it, the oldest turn starts. So each turn starts in the end. A turn whose conversation is busy does not
hold up the turns behind it. The queue is in memory. The task log keeps the messages and their order, from which it is
rebuilt.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from a2a.types.a2a_pb2 import TaskState, TaskStatusUpdateEvent

from fleetwright_a2a.task_events import agent_message, status_event
from fleetwright_agent.server.tasks.priorities import Priority

MOST_OVERTAKING: Final = 4
"""The number of turns in a row that may overtake the oldest turn."""
_TELL_SECONDS: Final = 0.2
"""Changed positions are reported together after this time, so that short turns do not cause a report each."""
POSITION: Final = "queuePosition"
"""The key of the position in the metadata of the status message."""

Conversation = tuple[str, str]
"""Owner and context."""


class TurnTicket:
    """The place of one turn in the queue, and later its right to run."""

    def __init__(
        self, queue: "TurnQueue", conversation: Conversation, tell: Callable[[int], None], priority: Priority
    ) -> None:
        self._queue = queue
        self._granted = asyncio.Event()
        self._tell = tell
        self._told: int | None = None
        self._is_awaited = False
        self.conversation: Final = conversation
        self.priority: Final = priority
        self.position = 0
        """The place among the waiting turns, from 1. Zero once the turn may run."""

    @property
    def granted(self) -> bool:
        return self._granted.is_set()

    async def turn(self) -> None:
        """Wait until the turn may run, and report its position meanwhile."""
        self._is_awaited = True
        self.tell()
        await self._granted.wait()

    def leave(self) -> None:
        """Leave the queue, or let the next turn run. Idempotent."""
        self._queue.leave(self)

    def grant(self) -> None:
        self.position = 0
        self._granted.set()

    def tell(self) -> None:
        """Report the position if it has changed."""
        if self._is_awaited and self.position not in (0, self._told):
            self._told = self.position
            self._tell(self.position)


class TurnQueue:
    def __init__(self, most: int) -> None:
        """Args: `most` is the maximum number of turns that run at once."""
        self._most = most
        self._running: dict[Conversation, TurnTicket] = {}
        self._waiting: dict[TurnTicket, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._overtaken = 0
        """The number of turns in a row that have overtaken an older turn."""

    @property
    def running(self) -> int:
        """The number of turns that may run. Any thread may read it."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of turns that wait. Any thread may read it."""
        return len(self._waiting)

    def enter(
        self, conversation: Conversation, tell: Callable[[int], None], *, priority: Priority = Priority.NORMAL
    ) -> TurnTicket:
        """Add a turn to the queue, behind the turns of its priority.

        Args:
            conversation: The owner and the context of the turn.
            tell: Called with the position of the turn while it is awaited, and again when the position has changed.
            priority: The priority of the message.
        """
        ticket = TurnTicket(self, conversation, tell, priority)
        self._waiting[ticket] = None
        self._advance()
        if ticket in self._waiting:
            order = self._in_order()
            ticket.position = order.index(ticket) + 1
            if ticket.position < len(order):
                self._tell_soon()
        return ticket

    def leave(self, ticket: TurnTicket) -> None:
        if self._running.get(ticket.conversation) is ticket:
            del self._running[ticket.conversation]
        elif ticket in self._waiting:
            del self._waiting[ticket]
        else:
            return
        self._advance()
        if self._waiting:
            self._tell_soon()

    def _advance(self) -> None:
        """Let waiting turns run, the first in order, as long as there is room."""
        while len(self._running) < self._most and (ticket := self._next()) is not None:
            del self._waiting[ticket]
            self._running[ticket.conversation] = ticket
            ticket.grant()

    def _next(self) -> TurnTicket | None:
        """Return the turn that may run next, and count how often the oldest one was overtaken."""
        oldest = next((each for each in self._waiting if each.conversation not in self._running), None)
        if oldest is None:
            return None
        first = next(each for each in self._in_order() if each.conversation not in self._running)
        if first is oldest or self._overtaken >= MOST_OVERTAKING:
            self._overtaken = 0
            return oldest
        self._overtaken += 1
        return first

    def _in_order(self) -> list[TurnTicket]:
        """Return the waiting turns by the priority of their conversations, and then by age."""
        highest: dict[Conversation, Priority] = {}
        for each in self._waiting:
            highest[each.conversation] = max(each.priority, highest.get(each.conversation, each.priority))
        return sorted(self._waiting, key=lambda each: -highest[each.conversation])

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_SECONDS, self._tell)

    def _tell(self) -> None:
        self._timer = None
        for position, ticket in enumerate(self._in_order(), start=1):
            ticket.position = position
            ticket.tell()


def waiting_status(
    task_id: str, context_id: str, state: TaskState, *, position: int, at_ns: int
) -> TaskStatusUpdateEvent:
    """Return the status of a task that waits for its turn. Its state does not change."""
    message = agent_message(f"Waiting for a turn; position {position} in the queue.", message_id=str(uuid4()))
    message.metadata[POSITION] = position
    return status_event(task_id, context_id, state, at_ns=at_ns, message=message)
