"""Chat completions, as OpenAI and everybody compatible with it serve them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

import httpx2
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.turn.providers.spoken import Spoken


class OpenAIChat(Spoken, ChatOpenAI):
    def named(self, model: str) -> Self:
        return self.model_copy(update={"model_name": model})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_completion_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:
        return {"prompt_cache_key": key}

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        """Providers have two names for what their models think; the stock client reads neither."""
        if self.thought is not None and (text := _thought(chunk)):
            self.thought(text)
        return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)


def _thought(chunk: Mapping[str, Any]) -> str:
    choices = chunk.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    text = delta.get("reasoning_content") or delta.get("reasoning")
    return text if isinstance(text, str) else ""


def build(
    endpoint: Endpoint, client: httpx2.AsyncClient, key: Callable[[], Awaitable[str]] | None, timeout: httpx2.Timeout
) -> OpenAIChat:
    return OpenAIChat(
        endpoint=endpoint,
        model=endpoint.name,
        base_url=endpoint.base_url,
        api_key=key or SecretStr("none"),
        http_async_client=client,
        max_retries=0,
        max_completion_tokens=endpoint.max_output_tokens,
        temperature=endpoint.temperature,
        extra_body=endpoint.extra_body or None,
        timeout=timeout,
        stream_chunk_timeout=None,  # `Spoken` looks after that, for every provider
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
    )
