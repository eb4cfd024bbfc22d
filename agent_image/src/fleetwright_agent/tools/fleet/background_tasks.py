"""Tasks of other agents that run in the background: no tool call waits for them.

Each result is added once to the conversation that began the task.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import Frame, TurnRequest
from fleetwright_agent.storage.open_questions import DelegatedTask, DelegatedTasks
from fleetwright_agent.tools.fleet.background_result import BackgroundResult
from fleetwright_agent.tools.peers.conversation import PeerConversations, PeerUnreachable, name_of
from fleetwright_agent.tools.peers.response import PeerResponse
from fleetwright_agent.tools.port import ToolCall, ToolError

MOST: Final = 20
"""The largest number of tasks of one conversation whose results it has not received."""
_log = logging.getLogger(__name__)


class BackgroundTasks:
    def __init__(
        self,
        conversations: PeerConversations,
        store: DelegatedTasks,
        *,
        find: Callable[[str], Peer | None],
    ) -> None:
        """Args: `find` returns the agent with a name `<namespace>/<name>`, or None if there is no such agent."""
        self._conversations = conversations
        self._store = store
        self._find = find

    async def begin(self, peer: Peer, call: ToolCall) -> str:
        """Begin a task, and return a sentence with its id at once.

        Raises:
            ToolError: The task could not be begun.
        """
        turn = call.turn
        if len(await self.undelivered(turn)) >= MOST:
            raise ToolError(
                f"the results of {MOST} tasks of this conversation are not delivered yet, which is the maximum;"
                " they come with the next message of this conversation. Ask with wait: true, or end this turn"
            )
        task_id = await self._conversations.begin(peer, call)
        await self._store.put(DelegatedTask(turn.owner, turn.context_id, name_of(peer), task_id))
        return (
            f"{peer.name} works on task {task_id}. Its result comes with the next message of this conversation after"
            " the task is done. Do not do this work yourself meanwhile"
        )

    async def finished(self, turn: TurnRequest) -> list[BackgroundResult]:
        """Return the results of the tasks of this conversation that are done, the oldest first.

        A question of an agent is a result too. There is at most one for each agent, because a conversation has at most
        one open question of each agent. Tasks with further questions remain stored for a later message.
        """
        tasks = await self.undelivered(turn)
        found = await asyncio.gather(*(self._read(task, turn) for task in tasks))
        # Sequentially, so that the oldest question of an agent is the one that is delivered.
        results = [
            await self._concluded(task, turn, each) if isinstance(each, PeerResponse) else each
            for task, each in zip(tasks, found, strict=True)
        ]
        return [result for result in results if result is not None]

    async def undelivered(self, turn: TurnRequest) -> list[DelegatedTask]:
        """Return the tasks of this conversation whose results are not recorded as delivered, the oldest first."""
        return await self._store.of(turn.owner, turn.context_id)

    async def delivered(self, tasks: Sequence[DelegatedTask]) -> None:
        """Record that the results of these tasks are in the conversation."""
        for task in tasks:
            await self._store.remove(task)

    async def _read(self, task: DelegatedTask, turn: TurnRequest) -> PeerResponse | BackgroundResult | None:
        """Return the response of the agent, an error as the result, or None if the result is not known yet."""
        peer = self._find(task.peer)
        if peer is None:
            return BackgroundResult(task, f"{task.peer} can no longer be asked", ok=False)
        try:
            return await self._conversations.read(peer, task, turn)
        except ToolError as error:
            return BackgroundResult(task, str(error), ok=False)
        except PeerUnreachable as error:
            _log.warning("the result of a task is not known yet", extra={"peer": task.peer, "why": str(error)})
            return None

    async def _concluded(
        self, task: DelegatedTask, turn: TurnRequest, response: PeerResponse
    ) -> BackgroundResult | None:
        frames: list[Frame] = []
        peer = self._find(task.peer)
        if peer is None:
            return BackgroundResult(task, f"{task.peer} can no longer be asked", ok=False)
        try:
            text = await self._conversations.conclude(peer, response, turn, frames.append)
        except ToolError as error:
            return BackgroundResult(task, str(error), ok=False, frames=tuple(frames))
        return None if text is None else BackgroundResult(task, text, ok=True, frames=tuple(frames))
