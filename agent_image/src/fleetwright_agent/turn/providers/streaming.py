"""The base class of all provider clients, which passes streamed text to callbacks and rejects incomplete tool calls.

The stock clients repair truncated JSON while streaming, so the agent would execute the repaired call.
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
from fleetwright_agent.turn.providers.failures import FullWindow, IncompleteAnswer, RefusedAnswer
from fleetwright_agent.turn.providers.finish_reason import FinishReason, end_of
from fleetwright_agent.turn.providers.tool_arguments import require_object

T = TypeVar("T")
REFUSAL: Final = "refusal"
"""The key of the text with which a model declines to answer, in the additional data of a message."""
_BATCH: Final = 64
"""Chunks are merged in batches of this size, because LangChain keeps every chunk (2.5 KB) until the call ends."""


class StreamingChat(BaseChatModel):
    """A base class, or a mixin for a stock client. List it before the stock class, so that it overrides `_astream`."""

    endpoint: Endpoint = Field(exclude=True)
    said: Callable[[str], None] | None = Field(default=None, exclude=True)
    thought: Callable[[str], None] | None = Field(default=None, exclude=True)

    @property
    def _serialized(self) -> dict[str, Any]:
        """Empty: serialising all fields is slow. Only LangChain's callback handlers need them, and there are none."""
        return {}

    def heard(self, said: Callable[[str], None], thought: Callable[[str], None]) -> Self:
        return self.model_copy(update={"said": said, "thought": thought})

    def ends_cache(self, message: AnyMessage) -> AnyMessage | None:  # noqa: ARG002 - most providers cache automatically
        return None

    def _chunks(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatGenerationChunk]:
        """Return the chunks of an answer as they arrive: those of the stock client, or of an override."""
        return cast("AsyncGenerator[ChatGenerationChunk]", super()._astream(*args, **kwargs))

    def _combine_usage(self, known: UsageMetadata | None, stated: UsageMetadata) -> UsageMetadata:
        """Return the usage of an answer after a chunk that states a usage. Each chunk of most clients adds to it."""
        return add_usage(known, stated)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        """Yield the whole answer as one chunk at its end, and pass text to `said` as it arrives.

        Subclasses pass reasoning to `thought`.

        Raises:
            IncompleteAnswer: The provider has not said that the answer is complete, or that it failed.
            FullWindow: The prompt has left no space for an answer.
            RefusedAnswer: A content filter has left nothing of the answer.
            MalformedToolCall: The arguments of a tool call are not a JSON object.
        """
        arguments: dict[int, list[str]] = {}
        batch: list[ChatGenerationChunk] = []
        whole = WholeCharacters()
        used: UsageMetadata | None = None
        end, has_text, refusal = FinishReason.NONE, False, ""
        # Close the connection as soon as the consumer stops, not at garbage collection.
        async with aclosing(self._chunks(*args, **kwargs)) as source:
            async for spoken in _in_time(source, self.endpoint.timeout_seconds):
                chunk = _with(spoken, whole)
                message = chunk.message
                ended = end_of({**(chunk.generation_info or {}), **message.response_metadata})
                if ended not in {FinishReason.NONE, FinishReason.UNSTATED} or end is FinishReason.NONE:
                    end = ended
                has_text = has_text or bool(chunk.text.strip())
                refusal += str(message.additional_kwargs.pop(REFUSAL, ""))
                if isinstance(message, AIMessageChunk):
                    if message.usage_metadata:
                        used = self._combine_usage(used, message.usage_metadata)
                        message.usage_metadata = None  # The whole answer gets the usage.
                    for part in message.tool_call_chunks:
                        arguments.setdefault(part["index"] or 0, []).append(part["args"] or "")
                # The caller does not receive text that follows the start of a tool call.
                if self.said is not None and chunk.text and not arguments:
                    self.said(chunk.text)
                    # Chunks that arrive together are read without a pause; yield to the loop so that they are emitted.
                    await asyncio.sleep(0)
                batch.append(chunk)
                if len(batch) > _BATCH:
                    batch = [_merged(batch)]
        # Some providers state zeros if they do not know the usage.
        used = used if used and used["total_tokens"] else None
        spent = AIMessage("", usage_metadata=used) if used else None
        if end in {FinishReason.NONE, FinishReason.ERROR}:
            raise IncompleteAnswer(end.value, spent)
        if end is FinishReason.WINDOW and not has_text and not arguments:
            raise FullWindow(end.value, spent)
        is_cut = end is FinishReason.FILTER and (arguments or not has_text)  # A filter may cut arguments too.
        if is_cut or (refusal and not has_text and not arguments):
            raise RefusedAnswer(refusal, spent)
        for pieces in arguments.values():
            require_object("".join(pieces), spent, end=end)
        if batch:
            answer = _merged(batch)
            if isinstance(answer.message, AIMessageChunk):
                answer.message.usage_metadata = used
            yield answer


async def _in_time(source: AsyncIterator[T], seconds: float) -> AsyncIterator[T]:
    """Yield the items of `source`, and raise `TimeoutError` after `seconds` without an item.

    The stock clients use `asyncio.wait_for`, which creates a task for each item. Before Python 3.12 it also loses a
    cancellation that arrives together with an item.
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
    """Return the chunk with complete characters only, both for the caller and for storage."""
    said = chunk.message.content
    if not isinstance(said, str) or (text := whole(said)) == said:
        return chunk
    message = chunk.message.model_copy(update={"content": text})
    return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)
