"""Chat completions, as OpenAI and everybody compatible with it serve them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self

import httpx2
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
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
        """Providers have two names for what their models think, and one more for what they want told again; the stock
        client reads none of them.
        """
        delta = _delta(chunk)
        if self.thought is not None and (text := _thought(delta)):
            self.thought(text)
        spoken = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if spoken is not None and (kept := _kept(delta)):
            spoken.message.additional_kwargs[_AGAIN] = {self.endpoint.base_url: kept}
        return spoken

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if isinstance(input_, Sequence):
            for message, told in zip(input_, payload["messages"], strict=False):
                if isinstance(message, AIMessage) and _AGAIN in message.additional_kwargs:
                    # No other provider is told: it would refuse what it does not know.
                    _tell_again(told, message.additional_kwargs[_AGAIN].get(self.endpoint.base_url, {}))
        return payload


_AGAIN: Final = "extra_content"
"""Of a call of a tool: what the provider wants to read with it next time, as Google its signature of a thought."""


def _delta(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = chunk.get("choices") or [{}]
    return choices[0].get("delta") or {}


def _kept(delta: Mapping[str, Any]) -> dict[str, Any]:
    """By the call."""
    return {call["id"]: call[_AGAIN] for call in delta.get("tool_calls") or () if call.get("id") and call.get(_AGAIN)}


def _tell_again(told: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    for call in told.get("tool_calls") or ():
        if call["id"] in kept:
            call[_AGAIN] = kept[call["id"]]


def _thought(delta: Mapping[str, Any]) -> str:
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
