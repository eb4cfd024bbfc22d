"""The queue of turns: at most a fixed number of turns run at once, and one at a time for each owner and context.

Turns start in the order in which their messages were accepted. A turn whose conversation is busy does not hold up the
turns behind it. The queue is in memory. The task log keeps the messages and their order, from which it is rebuilt.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from a2a.types.a2a_pb2 import TaskState, TaskStatusUpdateEvent

from fleetwright_a2a.task_events import agent_message, status_event

_TELL_SECONDS: Final = 0.2
"""Changed positions are reported together after this time, so that short turns do not cause a report each."""
POSITION: Final = "queuePosition"
"""The key of the position in the metadata of the status message."""

Conversation = tuple[str, str]
"""Owner and context."""


class TurnTicket:
    """The place of one turn in the queue, and later its right to run."""

    def __init__(self, queue: "TurnQueue", conversation: Conversation, tell: Callable[[int], None]) -> None:
        self._queue = queue
        self._granted = asyncio.Event()
        self._tell = tell
        self._told: int | None = None
        self._is_awaited = False
        self.conversation: Final = conversation
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

    @property
    def running(self) -> int:
        """The number of turns that may run. Any thread may read it."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of turns that wait. Any thread may read it."""
        return len(self._waiting)

    def enter(self, conversation: Conversation, tell: Callable[[int], None]) -> TurnTicket:
        """Add a turn at the end of the queue.

        Args:
            tell: Called with the position of the turn while it is awaited, and again when the position has changed.
        """
        ticket = TurnTicket(self, conversation, tell)
        self._waiting[ticket] = None
        ticket.position = len(self._waiting)
        self._advance()
        return ticket

    def leave(self, ticket: TurnTicket) -> None:
        if self._running.get(ticket.conversation) is ticket:
            del self._running[ticket.conversation]
        elif ticket in self._waiting:
            del self._waiting[ticket]
        else:
            return
        self._advance()
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_SECONDS, self._tell)

    def _advance(self) -> None:
        """Let waiting turns run, the oldest first, as long as there is room."""
        for ticket in tuple(self._waiting) if len(self._running) < self._most else ():
            if ticket.conversation not in self._running:
                del self._waiting[ticket]
                self._running[ticket.conversation] = ticket
                ticket.grant()
                if len(self._running) >= self._most:
                    return

    def _tell(self) -> None:
        self._timer = None
        for position, ticket in enumerate(tuple(self._waiting), start=1):
            ticket.position = position
            ticket.tell()


def waiting_status(
    task_id: str, context_id: str, state: TaskState, *, position: int, at_ns: int
) -> TaskStatusUpdateEvent:
    """Return the status of a task that waits for its turn. Its state does not change."""
    message = agent_message(f"Waiting for a turn; position {position} in the queue.", message_id=str(uuid4()))
    message.metadata[POSITION] = position
    return status_event(task_id, context_id, state, at_ns=at_ns, message=message)
