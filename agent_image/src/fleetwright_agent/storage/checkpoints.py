"""The port of the checkpoints of conversations: LangGraph's saver, with further methods that a turn needs.

Every implementation guarantees:

- Writes of one thread are stored in order. A turn awaits `settled` before others can see the effects of the writes.
- A checkpoint, its new messages and its pending node outputs are stored in one commit.
- Only the newest checkpoint of a thread exists. A message whose text was deleted keeps its position.

This module imports LangGraph, which is slow. Other modules import it only for type checking, or inside functions.
"""

from abc import abstractmethod
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from fleetwright_agent.storage.conversations import GONE, SideThread


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
        """Delete the separate thread of the task, and the data of its sub-agents."""


def message_of(serde: SerializerProtocol, identity: str, kind: str, body: bytes) -> AnyMessage:
    """Decode a stored message. A message whose text was deleted becomes an empty message at the same position."""
    if kind == GONE:
        return HumanMessage("", id=identity)
    message: AnyMessage = serde.loads_typed((kind, body))
    return message


def readable_message(message: AnyMessage) -> dict[str, Any]:
    """Return a message as people read it in a transcript."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    told: dict[str, Any] = {"role": message.type, "text": str(message.text)}
    return {
        **told,
        **({"toolCalls": [{"name": call["name"], "args": call["args"]} for call in calls]} if calls else {}),
    }
