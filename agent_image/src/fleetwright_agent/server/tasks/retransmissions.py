"""Messages that were sent before: which task has accepted one, and whether a repeated message is a new answer."""

from a2a.types.a2a_pb2 import SendMessageRequest
from a2a.utils.errors import InvalidRequestError, TaskNotFoundError

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.dialects.chosen_ids import RETRANSMISSION_NS, SAID_BEFORE
from fleetwright_a2a.task_events import INTERRUPTED
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.messages import claim_of, further
from fleetwright_agent.storage.tasks.records import Claim, DuplicateClaim
from fleetwright_agent.storage.tasks.task_log import TaskLog


class Retransmissions:
    def __init__(self, log: TaskLog, tasks: ActiveTasks, clock: Clock) -> None:
        self._log = log
        self._tasks = tasks
        self._clock = clock

    async def known(self, owner: str, request: SendMessageRequest, called: str | None) -> DuplicateClaim | None:
        """Return the task that an earlier, identical request created or continued."""
        first = await self._log.known(claim_of(owner, request))
        if first or not called:
            return first
        return await self._log.known(claim_of(owner, further(request, called)))

    async def answers_anew(self, live: ActiveTask, begun: Claim, named: Claim) -> bool:
        """Return whether a known message is a new answer to a waiting task, and not a retransmission.

        A caller may use one request id for all requests. If the caller has used the id for other content before, the
        message counts as new. This does not apply to approvals, which must be unambiguous.
        """
        pause = pause_of(live.task) if waits(live) else None
        if not waits(live) or (pause is not None and pause.kind is InterruptKind.APPROVAL):
            return False
        return await self._log.known(begun) is None and await self._log.is_reused(named)

    async def task_of(self, owner: str, known: DuplicateClaim, called: str | None = None) -> ActiveTask:
        """Return the task that has accepted the message before.

        Args:
            called: The id of the request, if the caller sends no message ids. Such a caller may have reused the id.

        Raises:
            TaskNotFoundError: The task was deleted.
            InvalidRequestError: The message is too late to be a retransmission.
        """
        live = await self._tasks.find(owner, known.task_id)
        if live is None:
            raise TaskNotFoundError
        if called is not None and waits(live) and self._clock.now_ns() - live.updated_ns > RETRANSMISSION_NS:
            raise InvalidRequestError(SAID_BEFORE)
        return live


def waits(live: ActiveTask) -> bool:
    """Return whether the task waits for an answer."""
    return live.state in INTERRUPTED and not live.busy
