"""Google's `generateContent`, through Google's client on the agent's HTTP transport.

Keys, projects and credentials never come from environment variables, although the stock class reads some.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Self

import httpx2
from google import genai
from google.genai.types import FunctionDeclaration, HttpOptions, Tool
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import SecretStr, ValidationError, model_validator

from fleetwright_agent.config.model import Endpoint, OtherModel
from fleetwright_agent.turn.providers.failures import IncompleteAnswer, MalformedToolCall
from fleetwright_agent.turn.providers.streaming import StreamingChat, thought_of
from fleetwright_agent.turn.providers.tool_declarations import declare_tools

_NO_KEY = "none"
_KEY_HEADER = "x-goog-api-key"
_ONE_TRY = 1
_HALF_A_CALL = "MALFORMED_FUNCTION_CALL"
"""The finish reason if the model wrote a tool call that Google itself could not parse."""
_BLOCKED = "PROHIBITED_CONTENT"

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
        # The stock method would convert the schemas.
        return self.bind(tools=[_build_tool(tools)], tool_config=tool_config, tool_choice=named, **kwargs)

    async def _chunks(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatGenerationChunk]:
        async with aclosing(self._read_stock_chunks(*args, **kwargs)) as chunks:
            async for chunk in chunks:
                if (chunk.generation_info or {}).get("finish_reason") == _HALF_A_CALL:
                    raise MalformedToolCall("the provider could not read the call", _spent(chunk))
                if _is_blocked(chunk):
                    chunk.generation_info = {"finish_reason": _BLOCKED}
                if self.thought is not None and (text := thought_of(chunk.message)):
                    self.thought(text)
                yield chunk

    async def _read_stock_chunks(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatGenerationChunk]:
        async with aclosing(super()._chunks(*args, **kwargs)) as chunks:
            try:
                async for chunk in chunks:
                    yield chunk
            except ValidationError as error:
                raise IncompleteAnswer("an event of the answer is not valid") from error


def _build_tool(tools: Sequence[Any]) -> Tool:
    """Return the declarations of tools with their JSON Schema. The stock client would drop most of its keywords."""
    functions = [each["function"] for each in declare_tools(tools)]
    return Tool(
        function_declarations=[
            FunctionDeclaration(
                name=function["name"],
                description=function.get("description"),
                parameters_json_schema=_choose_parameters(function["parameters"]),
            )
            for function in functions
        ]
    )


def _choose_parameters(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema, or None for a tool without arguments, because an object without properties is refused."""
    is_open = schema.get("additionalProperties") not in (None, False)
    return schema if schema["properties"] or is_open else None


def _is_blocked(chunk: ChatGenerationChunk) -> bool:
    """Return whether the provider has refused the prompt. There is no candidate then, and no finish reason."""
    feedback = chunk.message.response_metadata.get("prompt_feedback") or {}
    return bool(feedback.get("block_reason"))


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
