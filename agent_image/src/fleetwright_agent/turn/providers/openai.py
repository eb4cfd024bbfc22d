"""Chat completions, as OpenAI and compatible providers serve them."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Self

import httpx2
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.chat_completions.adaptation import RequestAdapter
from fleetwright_agent.turn.providers.chat_completions.answer import AnswerReader
from fleetwright_agent.turn.providers.chat_completions.client import CompletionsClient
from fleetwright_agent.turn.providers.chat_completions.errors import CompletionStatusError, EarlyEndError
from fleetwright_agent.turn.providers.chat_completions.messages import converted, converted_choice
from fleetwright_agent.turn.providers.error_meaning import Meaning, meaning_of
from fleetwright_agent.turn.providers.reasoning import origin_of, restore_reasoning
from fleetwright_agent.turn.providers.streaming import StreamingChat
from fleetwright_agent.turn.providers.tool_call_deltas import restore_extras
from fleetwright_agent.turn.providers.tool_declarations import declare_tools

_REFUSED_FORMS: Final = {400, 422, 500}
"""Statuses of refused requests. llama.cpp answers with 500 if a message does not fit into the template of the model."""
_FORMS: Final = {Meaning.INVALID, Meaning.BROKEN}
"""The meanings of errors that a request in a wrong form may cause."""
_FIXED_TEMPERATURE: Final = re.compile(r"gpt-5(?!.*chat)", re.IGNORECASE)
"""Models that refuse every temperature but 1."""


class OpenAIChat(StreamingChat):
    model_name: str
    client: CompletionsClient = Field(exclude=True)
    adapters: dict[str, RequestAdapter] = Field(exclude=True, default_factory=dict)
    """By model. All models at the address share it."""
    parameters: dict[str, Any]
    """The fields of every request. A call may override them, and the operator's fields override both."""
    streaming: bool = True

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    @property
    def _origin(self) -> str:
        return origin_of(self.model_name, self.endpoint.base_url)

    def other(self, model: OtherModel) -> Self:
        return self.model_copy(
            update={
                "model_name": model.name,
                "endpoint": model.at(self.endpoint),
            }
        )

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_completion_tokens": tokens}

    def cached(self, key: str) -> dict[str, Any]:
        return {"prompt_cache_key": key}

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, AIMessage]:
        declared = declare_tools(tools)
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
        reader = AnswerReader(self.endpoint.base_url, self._origin, self.thought)
        is_complete = True
        try:
            async with aclosing(self._read_events(messages, stop, kwargs)) as events:
                async for event in events:
                    chunk = reader.read(event)
                    if chunk is not None:
                        yield chunk
        except EarlyEndError:
            # Many servers omit the last event. The reason of the end, if it was stated, completes the answer.
            is_complete = reader.has_ended
        if is_complete and (last := reader.build_end()) is not None:
            yield last

    async def _read_events(
        self, messages: list[BaseMessage], stop: list[str] | None, fields: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of an answer. A request that is refused because of its form is sent in another form."""
        body = self._body(messages, stop, fields)
        adapter = self.adapters.setdefault(self.model_name, RequestAdapter())
        while True:
            adapted = adapter.adapt_request(body)
            try:
                async with aclosing(self.client.stream(adapted)) as events:
                    async for event in events:
                        yield event
            except CompletionStatusError as refused:
                meaning = meaning_of(refused.status_code, refused.codes, refused.message)
                is_form = refused.status_code in _REFUSED_FORMS and meaning in _FORMS
                if not is_form or not adapter.learn_form(refused.message, body, sent=adapted):
                    raise
            else:
                return

    def _combine_usage(self, known: UsageMetadata | None, stated: UsageMetadata) -> UsageMetadata:
        # Each usage is that of the whole answer so far.
        return stated if known is None or stated["total_tokens"] >= known["total_tokens"] else known

    def _body(self, messages: list[BaseMessage], stop: list[str] | None, fields: dict[str, Any]) -> dict[str, Any]:
        sent = converted(messages, self.model_name)
        restore_extras(messages, sent, self.endpoint.base_url)
        restore_reasoning(messages, sent, self._origin)
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
