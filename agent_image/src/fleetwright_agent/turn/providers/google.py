"""Google's `generateContent`, through Google's client on the agent's HTTP transport.

Keys, projects and credentials never come from environment variables, although the stock class reads some.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Self

import httpx2
from google import genai
from google.genai.types import HttpOptions
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import SecretStr, model_validator

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.failures import MalformedToolCall
from fleetwright_agent.turn.providers.streaming import StreamingChat, thought_of

_NO_KEY = "none"
_KEY_HEADER = "x-goog-api-key"
_ONE_TRY = 1
_HALF_A_CALL = "MALFORMED_FUNCTION_CALL"
"""The finish reason if the model wrote a tool call that Google itself could not parse."""

# At each call, this logger warns about JSON Schema keywords that the stock client ignores.
logging.getLogger("langchain_google_genai._function_utils").setLevel(logging.ERROR)


class GoogleChat(StreamingChat, ChatGoogleGenerativeAI):
    @model_validator(mode="after")
    def validate_environment(self) -> Self:
        """Replace the stock validator, which creates a client with its own transport."""
        return self

    @property
    def async_client(self) -> Any:
        assert self.client is not None  # noqa: S101 - `build` sets it
        return self.client.aio

    def other(self, model: OtherModel) -> Self:
        return self.model_copy(update={"model": model.name, "endpoint": model.at(self.endpoint)})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_output_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:  # noqa: ARG002 - Google caches automatically
        return {}

    def bind_tools(
        self, tools: Sequence[Any], tool_config: Any = None, *, tool_choice: Any = None, **kwargs: Any
    ) -> Any:
        """Convert the tool choice from the format of chat completions."""
        named = tool_choice["function"]["name"] if isinstance(tool_choice, dict) else tool_choice
        return super().bind_tools(tools, tool_config, tool_choice=named, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            if (chunk.generation_info or {}).get("finish_reason") == _HALF_A_CALL:
                raise MalformedToolCall("the provider could not read the call", _spent(chunk))
            if self.thought is not None and (text := thought_of(chunk.message)):
                self.thought(text)
            yield chunk


def _spent(chunk: ChatGenerationChunk) -> AIMessage:
    used = chunk.message.usage_metadata if isinstance(chunk.message, AIMessageChunk) else None
    return AIMessage("", usage_metadata=used)


def build(
    endpoint: Endpoint, client: httpx2.AsyncClient, key: Callable[[], Awaitable[str]] | None, timeout: httpx2.Timeout
) -> GoogleChat:
    async def keyed(request: httpx2.Request) -> None:
        request.headers[_KEY_HEADER] = _NO_KEY if key is None else await key()

    # This client belongs to one endpoint, so each of its requests gets the current key.
    client.event_hooks = {"request": [keyed]}
    client.timeout = timeout
    options = HttpOptions(base_url=endpoint.base_url, httpx_async_client=client)
    return GoogleChat(
        endpoint=endpoint,
        client=genai.Client(vertexai=False, api_key=_NO_KEY, http_options=options),
        model=endpoint.name,
        api_key=SecretStr(_NO_KEY),
        max_tokens=endpoint.max_output_tokens,
        temperature=endpoint.temperature,
        retries=_ONE_TRY,
        streaming=True,
    )
