"""Chat completions, as OpenAI and compatible providers serve them."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Self

import httpx2
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.chat_completions.answer import AnswerReader
from fleetwright_agent.turn.providers.chat_completions.client import CompletionsClient
from fleetwright_agent.turn.providers.chat_completions.messages import converted, converted_choice, converted_tools
from fleetwright_agent.turn.providers.streaming import StreamingChat
from fleetwright_agent.turn.providers.tool_call_deltas import restore_extras

_FIXED_TEMPERATURE: Final = re.compile(r"gpt-5(?!.*chat)", re.IGNORECASE)
"""Models that refuse every temperature but 1."""


class OpenAIChat(StreamingChat):
    model_name: str
    client: CompletionsClient = Field(exclude=True)
    parameters: dict[str, Any]
    """The fields of every request. A call may override them, and the operator's fields override both."""
    streaming: bool = True

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    def other(self, model: OtherModel) -> Self:
        return self.model_copy(update={"model_name": model.name, "endpoint": model.at(self.endpoint)})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_completion_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:
        return {"prompt_cache_key": key}

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, AIMessage]:
        declared = converted_tools(tools)
        choice = converted_choice(tool_choice, declared)
        chosen = {} if choice is None else {"tool_choice": choice}
        return self.bind(tools=declared, **chosen, **kwargs)

    async def _chunks(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG002 - LangChain passes it, and reports the chunks itself
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        """Yield the chunks of an answer. Args: `kwargs` are fields of the request."""
        reader = AnswerReader(self.endpoint.base_url, self.thought)
        async with aclosing(self.client.stream(self._body(messages, stop, kwargs))) as events:
            async for event in events:
                chunk = reader.read(event)
                if chunk is not None:
                    yield chunk

    def _body(self, messages: list[BaseMessage], stop: list[str] | None, fields: dict[str, Any]) -> dict[str, Any]:
        sent = converted(messages, self.model_name)
        restore_extras(messages, sent, self.endpoint.base_url)
        return {
            "model": self.model_name,
            **self.parameters,
            **fields,
            **({} if stop is None else {"stop": stop}),
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": sent,
            **self.endpoint.extra_body,
        }

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("chat completions are asynchronous; use ainvoke")


def build(
    endpoint: Endpoint, client: httpx2.AsyncClient, key: Callable[[], Awaitable[str]] | None, timeout: httpx2.Timeout
) -> OpenAIChat:
    parameters: dict[str, Any] = {"max_completion_tokens": endpoint.max_output_tokens}
    fixed = _FIXED_TEMPERATURE.match(endpoint.name) and endpoint.temperature != 1
    if endpoint.temperature is not None and not fixed:
        parameters["temperature"] = endpoint.temperature
    return OpenAIChat(
        endpoint=endpoint,
        model_name=endpoint.name,
        client=CompletionsClient(client, endpoint.base_url, key, timeout),
        parameters=parameters,
        streaming=True,  # LangChain streams only if this is set explicitly
    )
