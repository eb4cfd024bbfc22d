"""The chat model: an OpenAI-compatible client that streams, counts, and never runs half a tool call."""

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

import httpx2
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from fleetwright_agent.config.model import Model
from fleetwright_agent.layout import Layout
from fleetwright_agent.turn.characters import Whole, is_whole
from fleetwright_agent.turn.failures import MalformedToolCall, MissingKey

_CONNECT_SECONDS = 10.0
_MOST_DEPTH = 24
"""Of arguments: what asks a person or answers in a shape must fit into the protocol's messages."""


class Chat(ChatOpenAI):
    """ChatOpenAI that hands text on as it comes and refuses tool arguments that are not JSON.

    The stock client repairs truncated JSON while streaming, and the repaired call would be executed.
    """

    said: Callable[[str], None] | None = Field(default=None, exclude=True)
    thought: Callable[[str], None] | None = Field(default=None, exclude=True)
    """Providers have two names for what their models think; the stock client reads neither."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        arguments: dict[int, list[str]] = {}
        calling = False
        whole = Whole()
        spent = AIMessage("")
        async for chunk in super()._astream(*args, **kwargs):
            chunk = _with(chunk, whole)
            message = chunk.message
            if isinstance(message, AIMessageChunk):
                if message.usage_metadata:
                    spent = AIMessage("", usage_metadata=message.usage_metadata)
                for part in message.tool_call_chunks:
                    calling = True
                    arguments.setdefault(part["index"] or 0, []).append(part["args"] or "")
            # Text that follows the start of a tool call is not for the reader (T-03).
            if self.said is not None and chunk.text and not calling:
                self.said(chunk.text)
            yield chunk
        for pieces in arguments.values():
            _require_object("".join(pieces), spent)

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        if self.thought is not None and (text := _thought(chunk)):
            self.thought(text)
        return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)


def _thought(chunk: Mapping[str, Any]) -> str:
    choices = chunk.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    text = delta.get("reasoning_content") or delta.get("reasoning")
    return text if isinstance(text, str) else ""


def _with(chunk: ChatGenerationChunk, whole: Whole) -> ChatGenerationChunk:
    """The piece with whole characters only, for the reader and for the memory alike."""
    said = chunk.message.content
    if not isinstance(said, str) or (text := whole(said)) == said:
        return chunk
    message = chunk.message.model_copy(update={"content": text})
    return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)


def _require_object(text: str, spent: AIMessage) -> None:
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant, parse_float=_finite)
    except ValueError as error:
        raise MalformedToolCall("tool arguments are not JSON", spent) from error
    except RecursionError as error:
        raise MalformedToolCall("tool arguments nest without end", spent) from error
    if not isinstance(value, dict):
        raise MalformedToolCall("tool arguments are not an object", spent)
    if not is_whole(json.dumps(value, ensure_ascii=False)):
        raise MalformedToolCall("tool arguments hold half of a character", spent)
    if _deeper(value, _MOST_DEPTH):
        raise MalformedToolCall(f"tool arguments nest deeper than {_MOST_DEPTH}", spent)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    """What is larger than every number would be infinity, which JSON has no word for when it is told again."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _deeper(value: Any, levels: int) -> bool:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 0 or _deeper(inner, levels - 1) for inner in within if isinstance(inner, dict | list))


def build_chat(model: Model, layout: Layout, client: httpx2.AsyncClient) -> Chat:
    """A client for one declared model; the key file is read before every call, so rotation needs no restart."""

    async def key() -> str:
        if model.api_key_file is None:
            return "none"
        try:
            return layout.secret(model.api_key_file).read_text().strip()
        except OSError as error:
            raise MissingKey("the key file cannot be read") from error

    return Chat(
        model=model.name,
        base_url=model.base_url,
        api_key=key if model.api_key_file else SecretStr("none"),
        http_async_client=client,
        max_retries=0,
        max_completion_tokens=model.max_output_tokens,
        temperature=model.temperature,
        timeout=httpx2.Timeout(model.timeout_seconds, connect=min(_CONNECT_SECONDS, model.timeout_seconds)),
        stream_chunk_timeout=float(model.timeout_seconds),
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
    )
