"""The port of the checkpoints of conversations: LangGraph's saver, and what a turn needs besides.

Every implementation guarantees:

- Writes of one thread are stored in order. `settled` waits for them before their effects are visible outside.
- A checkpoint, the messages that it adds and its pending node outputs are one commit.
- Only the newest checkpoint of a thread exists. A message whose text was deleted keeps its position.

This module imports LangGraph. Other code imports it only for types, or late.
"""

from abc import abstractmethod

from langgraph.checkpoint.base import BaseCheckpointSaver

from fleetwright_agent.storage.conversations import SideThread


class ConversationSaver(BaseCheckpointSaver[int]):
    @abstractmethod
    async def settled(self, thread: str) -> None:
        """Wait until the queued writes of that thread are on disk.

        Raises:
            MemoryUnusable: A write failed.
        """

    @abstractmethod
    async def holds(self, thread: str) -> bool:
        """Return whether the thread exists."""

    @abstractmethod
    async def adelete_aside(self, aside: SideThread) -> None:
        """Delete the part of a conversation that was set aside for the task, and the data of its sub-agents."""
