"""Chat completions, as OpenAI and compatible providers serve them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Self

import httpx2
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.streaming import StreamingChat
from fleetwright_agent.turn.providers.tool_call_deltas import EXTRA, ToolCallDeltas, restore_extras


class OpenAIChat(StreamingChat, ChatOpenAI):
    called: ToolCallDeltas = Field(default_factory=ToolCallDeltas, exclude=True)

    def other(self, model: OtherModel) -> Self:
        return self.model_copy(update={"model_name": model.name, "endpoint": model.at(self.endpoint)})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_completion_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:
        return {"prompt_cache_key": key}

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        """Also read the reasoning text, for which providers use two field names. The stock client reads neither."""
        delta = _delta(chunk)
        if self.thought is not None and (text := _thought(delta)):
            self.thought(text)
        if not delta.get("tool_calls"):
            return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        delta = self.called.numbered(delta)
        chunk = {**chunk, "choices": [{**chunk["choices"][0], "delta": delta}]}
        read = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if read is not None and (extras := self.called.extras(delta)):
            read.message.additional_kwargs[EXTRA] = {self.endpoint.base_url: extras}
        return read

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        answering = self.model_copy(update={"called": ToolCallDeltas()})
        async for chunk in super(OpenAIChat, answering)._astream(*args, **kwargs):
            yield chunk

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        restore_extras(self._convert_input(input_).to_messages(), payload["messages"], self.endpoint.base_url)
        return payload


def _delta(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = chunk.get("choices") or [{}]
    delta: Mapping[str, Any] = choices[0].get("delta") or {}
    return delta


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
        stream_chunk_timeout=None,  # `StreamingChat` has the timeout for every provider
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
    )
