"""The common part of all provider clients: streams to callbacks, and rejects incomplete tool calls.

The stock clients repair truncated JSON while streaming, and the repaired call would be executed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Self, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field

from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.turn.providers.characters import WholeCharacters
from fleetwright_agent.turn.providers.finish_reason import FinishReason, end_of
from fleetwright_agent.turn.providers.tool_arguments import require_object

T = TypeVar("T")
_BATCH: Final = 64
"""The number of chunks merged at a time, because LangChain keeps every chunk of 2.5 KB until the call ends."""


class StreamingChat(BaseChatModel):
    """A mixin that precedes a provider's class; the provider's stream passes through it."""

    endpoint: Endpoint = Field(exclude=True)
    said: Callable[[str], None] | None = Field(default=None, exclude=True)
    thought: Callable[[str], None] | None = Field(default=None, exclude=True)

    @property
    def _serialized(self) -> dict[str, Any]:
        """Empty: serialising all fields is slow, and serves only callbacks, which are not used here."""
        return {}

    def heard(self, said: Callable[[str], None], thought: Callable[[str], None]) -> Self:
        return self.model_copy(update={"said": said, "thought": thought})

    def ends_cache(self, message: AnyMessage) -> AnyMessage | None:  # noqa: ARG002 - most providers cache automatically
        return None

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        """Yield the whole answer as one chunk at its end, and pass each chunk to `said` and `thought` as it arrives."""
        arguments: dict[int, list[str]] = {}
        batch: list[ChatGenerationChunk] = []
        whole = WholeCharacters()
        used: UsageMetadata | None = None
        end = FinishReason.NONE
        # Close the connection as soon as the consumer stops, not at garbage collection.
        async with aclosing(cast("AsyncGenerator[ChatGenerationChunk]", super()._astream(*args, **kwargs))) as source:
            async for spoken in _in_time(source, self.endpoint.timeout_seconds):
                chunk = _with(spoken, whole)
                message = chunk.message
                ended = end_of({**(chunk.generation_info or {}), **message.response_metadata})
                end = end if ended is FinishReason.NONE else ended
                if isinstance(message, AIMessageChunk):
                    used = add_usage(used, message.usage_metadata) if message.usage_metadata else used
                    for part in message.tool_call_chunks:
                        arguments.setdefault(part["index"] or 0, []).append(part["args"] or "")
                # Text after the start of a tool call is not for the reader.
                if self.said is not None and chunk.text and not arguments:
                    self.said(chunk.text)
                    # Chunks that arrive together are read without a pause; yield to the loop so that they are emitted.
                    await asyncio.sleep(0)
                batch.append(chunk)
                if len(batch) > _BATCH:
                    batch = [_merged(batch)]
        if batch:
            yield _merged(batch)
        for pieces in arguments.values():
            require_object("".join(pieces), AIMessage("", usage_metadata=used), end=end)


async def _in_time(source: AsyncIterator[T], seconds: float) -> AsyncIterator[T]:
    """Yield the items of `source`, and raise `TimeoutError` after `seconds` without an item.

    The stock clients use `asyncio.wait_for`. It creates a task for each item, and before Python 3.12 it loses a
    cancellation that coincides with one.
    """
    pieces = aiter(source)
    while True:
        async with asyncio.timeout(seconds):
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
        yield piece


def _merged(batch: Sequence[ChatGenerationChunk]) -> ChatGenerationChunk:
    first, *others = batch
    return first + others if others else first


def thought_of(message: object) -> str:
    """The reasoning text of a chunk whose content is a list of blocks."""
    blocks = message.content if isinstance(message, AIMessageChunk) and isinstance(message.content, list) else []
    return "".join(str(block.get("thinking", "")) for block in blocks if isinstance(block, dict))


def _with(chunk: ChatGenerationChunk, whole: WholeCharacters) -> ChatGenerationChunk:
    """Return the chunk with complete characters only, both for the reader and for storage."""
    said = chunk.message.content
    if not isinstance(said, str) or (text := whole(said)) == said:
        return chunk
    message = chunk.message.model_copy(update={"content": text})
    return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)
