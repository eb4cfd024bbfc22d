"""Anthropic's Messages API, through Anthropic's client on the agent's HTTP transport.

Credentials, headers and addresses never come from environment variables, although the stock client reads some.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Final, Self

import anthropic
import httpx2
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AnyMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field, SecretStr

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.streaming import StreamingChat, thought_of

_NO_KEY = "none"
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
        return super().bind_tools(tools, tool_choice=_choice(tool_choice), **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            if self.thought is not None and (text := thought_of(chunk.message)):
                self.thought(text)
            yield chunk


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
