"""Anthropic's Messages API, through Anthropic's client on the agent's HTTP transport.

Credentials, headers and addresses never come from environment variables, although the stock client reads some.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import Any, Final, Self

import anthropic
import httpx2
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.chat_models import _create_usage_metadata
from langchain_core.messages import AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field, SecretStr

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.call_ids import restrict_ids
from fleetwright_agent.turn.providers.failures import IncompleteAnswer
from fleetwright_agent.turn.providers.finish_reason import UNSTATED, FinishReason, end_of
from fleetwright_agent.turn.providers.streaming import StreamingChat, thought_of
from fleetwright_agent.turn.providers.tool_declarations import declare_tools

_NO_KEY = "none"
_REQUIRED: Final = {"text": "text", "thinking": "signature"}
"""The field without which a block is refused, by type."""
_STOPPED: Final = "stopped"
"""Marks the chunk of the last event."""
_KEEP: Final = {"type": "ephemeral"}


class _Client(anthropic.AsyncAnthropic):
    """Reads the key before each call."""

    def __init__(
        self, endpoint: Endpoint, client: httpx2.AsyncClient, key: Callable[[], Awaitable[str]] | None, timeout: Any
    ) -> None:
        super().__init__(
            api_key=_NO_KEY, base_url=endpoint.base_url, http_client=client, max_retries=0, timeout=timeout
        )
        # Remove the headers that the constructor took from ANTHROPIC_CUSTOM_HEADERS.
        self._custom_headers = {}
        self._key = key

    async def _prepare_options(self, options: Any) -> Any:
        if self._key is not None:
            self.api_key = await self._key()
        return await super()._prepare_options(options)


class AnthropicChat(StreamingChat, ChatAnthropic):
    client: Any = Field(exclude=True)

    @cached_property
    def _async_client(self) -> anthropic.AsyncClient:
        client: anthropic.AsyncClient = self.client
        return client

    def other(self, model: OtherModel) -> Self:
        return self.model_copy(update={"model": model.name, "endpoint": model.at(self.endpoint)})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:  # noqa: ARG002 - Anthropic's cache needs no key
        return {"cache_control": _KEEP}

    def ends_cache(self, message: AnyMessage) -> AnyMessage | None:
        content = message.content
        said: list[Any] = [{"type": "text", "text": content}] if content else []
        blocks = content if isinstance(content, list) else said
        if not blocks or not isinstance(last := blocks[-1], dict):
            return None
        return message.model_copy(update={"content": [*blocks[:-1], {**last, "cache_control": _KEEP}]})

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        """Convert the tool choice from the format of chat completions.

        The choice "none" is not sent, because a changed tool choice invalidates the provider's cache of the
        conversation. The prompt tells the model not to call tools instead.
        """
        return super().bind_tools(declare_tools(tools), tool_choice=_choice(tool_choice), **kwargs)

    def _make_message_chunk_from_anthropic_event(self, event: Any, **kwargs: Any) -> Any:
        """Add what the stock client drops: usage and content of the first event, and the last event.

        Some servers send usage and content only in the first event.

        Raises:
            IncompleteAnswer: An event has an unknown shape.
        """
        try:
            chunk, block = super()._make_message_chunk_from_anthropic_event(event, **kwargs)
            if event.type == "message_start" and isinstance(chunk, AIMessageChunk):
                chunk = _add_first_content(chunk, event.message)
                chunk.usage_metadata = _create_usage_metadata(event.message.usage)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise IncompleteAnswer("an event of the answer is not valid") from error
        if event.type == "message_stop":
            return AIMessageChunk(content="", additional_kwargs={_STOPPED: True}), block
        return chunk, block

    def _combine_usage(self, known: UsageMetadata | None, stated: UsageMetadata) -> UsageMetadata:
        # Each usage is that of the whole answer so far, but later ones may lack the tokens of the prompt.
        prompt = stated if known is None or stated["input_tokens"] >= known["input_tokens"] else known
        output = max(stated["output_tokens"], known["output_tokens"] if known else 0)
        return {
            **stated,
            "input_tokens": prompt["input_tokens"],
            "output_tokens": output,
            "total_tokens": prompt["input_tokens"] + output,
            "input_token_details": prompt.get("input_token_details", {}),
        }

    async def _chunks(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncGenerator[ChatGenerationChunk]:
        has_reason = False
        async with aclosing(super()._chunks(restrict_ids(messages), *args, **kwargs)) as chunks:
            async for chunk in chunks:
                has_reason = has_reason or bool(chunk.message.response_metadata.get("stop_reason"))
                if chunk.message.additional_kwargs.pop(_STOPPED, False):
                    if has_reason:
                        continue
                    chunk.generation_info = {"finish_reason": UNSTATED}
                if self.thought is not None and (text := thought_of(chunk.message)):
                    self.thought(text)
                yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for answer in super()._astream(*args, **kwargs):
            is_whole = end_of(answer.message.response_metadata) is FinishReason.OWN
            answer.message.content = _drop_refused_blocks(answer.message.content, is_whole=is_whole)
            yield answer


def _add_first_content(chunk: AIMessageChunk, message: Any) -> AIMessageChunk:
    blocks = [block for block in message.content or () if block.type in {"text", "tool_use"}]
    if not blocks:
        return chunk
    return AIMessageChunk(
        content=[{**block.model_dump(), "index": index} for index, block in enumerate(blocks)],
        tool_call_chunks=[
            tool_call_chunk(name=block.name, args=json.dumps(block.input), id=block.id, index=index)
            for index, block in enumerate(blocks)
            if block.type == "tool_use"
        ],
        response_metadata={**chunk.response_metadata, "stop_reason": message.stop_reason},
    )


def _drop_refused_blocks(content: Any, *, is_whole: bool) -> Any:
    """Return the content without what the provider refuses later: empty texts, and reasoning that was cut.

    Reasoning that was cut has no signature. Compatible servers send whole reasoning without one, and expect it back.
    """
    if not isinstance(content, list):
        return content
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    required = _REQUIRED if not is_whole else {"text": "text"}
    return [block for block in blocks if block.get(required.get(block.get("type", ""), "type"))]


def _choice(wanted: Any) -> Any:
    if wanted == "none":
        return None
    return {"type": "tool", "name": wanted["function"]["name"]} if isinstance(wanted, dict) else wanted


def build(
    endpoint: Endpoint, client: httpx2.AsyncClient, key: Callable[[], Awaitable[str]] | None, timeout: httpx2.Timeout
) -> AnthropicChat:
    return AnthropicChat(
        endpoint=endpoint,
        client=_Client(endpoint, client, key, timeout),
        model_name=endpoint.name,
        base_url=endpoint.base_url,
        api_key=SecretStr(_NO_KEY),
        max_tokens_to_sample=endpoint.max_output_tokens,
        temperature=endpoint.temperature,
        max_retries=0,
        timeout=None,
        stop=None,
        streaming=True,
        stream_usage=True,
    )
