"""Reads the events of an answer into LangChain's chunks. Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from fleetwright_agent.turn.providers.tool_call_deltas import EXTRA, ToolCallDeltas

_PROVIDER: Final = {"model_provider": "openai"}
_PRICED_TIERS: Final = {"priority", "flex"}
"""Service tiers with prices of their own. LangChain counts their tokens under separate names."""


class AnswerReader:
    """Reads one answer. Keep one for each call."""

    def __init__(self, address: str, thought: Callable[[str], None] | None = None) -> None:
        """Args: `address` marks data that only this provider may get back. `thought` receives the reasoning text."""
        self._address = address
        self._thought = thought
        self._calls = ToolCallDeltas()
        self._choice: Any = None
        self._ended = False

    def read(self, event: Mapping[str, Any]) -> ChatGenerationChunk | None:
        """Return the chunk of an event. Return None if the event belongs to another choice than the first."""
        usage = event.get("usage")
        used = usage_metadata(usage, event.get("service_tier")) if isinstance(usage, Mapping) and usage else None
        choices = [each for each in _list(event.get("choices")) if isinstance(each, Mapping)]
        if not choices:
            return ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))
        choice = next(filter(self._is_followed, choices), None)
        if choice is None:
            return None
        delta = choice.get("delta")
        message = self._message(delta if isinstance(delta, Mapping) else {})
        message.usage_metadata = used
        return ChatGenerationChunk(message=message, generation_info=self._info(event, choice) or None)

    def _is_followed(self, choice: Mapping[str, Any]) -> bool:
        """Return True for the choice of the first event. No request asks for more, but the operator's fields may."""
        if self._choice is None:
            self._choice = choice.get("index", 0)
        return bool(choice.get("index", 0) == self._choice)

    def _message(self, delta: Mapping[str, Any]) -> AIMessageChunk:
        # Providers use two names for the reasoning text.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if self._thought is not None and thought and isinstance(thought, str):
            self._thought(thought)
        pieces = [each for each in _list(delta.get("tool_calls")) if isinstance(each, Mapping)]
        numbered = self._calls.numbered({"tool_calls": pieces})
        message = AIMessageChunk(
            content=_content(delta.get("content")),
            tool_call_chunks=[_call(piece) for piece in numbered["tool_calls"]],
            response_metadata=dict(_PROVIDER),
        )
        if extras := self._calls.extras(numbered):
            message.additional_kwargs[EXTRA] = {self._address: extras}
        return message

    def _info(self, event: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
        about = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        ended = choice.get("finish_reason")
        if not ended or self._ended:
            return about
        # Some providers repeat the end. LangChain would concatenate the texts.
        self._ended = True
        ends = {
            "finish_reason": ended,
            "model_name": event.get("model"),
            "system_fingerprint": event.get("system_fingerprint"),
            "service_tier": event.get("service_tier"),
        }
        return {**about, **{name: value for name, value in ends.items() if value}}


def usage_metadata(usage: Mapping[str, Any], service_tier: Any = None) -> UsageMetadata:
    """Return the provider's usage in LangChain's format. Absent counts are zero, absent details are left out."""
    tokens_in = _count(usage.get("prompt_tokens")) or 0
    tokens_out = _count(usage.get("completion_tokens")) or 0
    total = _count(usage.get("total_tokens"))
    tier = service_tier if service_tier in _PRICED_TIERS else None
    prefix = f"{tier}_" if tier else ""
    details_in, details_out = (
        _mapping(usage.get("prompt_tokens_details")),
        _mapping(usage.get("completion_tokens_details")),
    )
    cached, reasoned = _count(details_in.get("cached_tokens")), _count(details_out.get("reasoning_tokens"))
    spent_in = {
        "audio": _count(details_in.get("audio_tokens")),
        f"{prefix}cache_read": cached,
        f"{prefix}cache_creation": _count(details_in.get("cache_write_tokens")),
    }
    spent_out = {"audio": _count(details_out.get("audio_tokens")), f"{prefix}reasoning": reasoned}
    if tier is not None:
        spent_in[tier] = tokens_in - (cached or 0)
        spent_out[tier] = tokens_out - (reasoned or 0)
    return UsageMetadata(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        total_tokens=tokens_in + tokens_out if total is None else total,
        input_token_details=InputTokenDetails(**_stated(spent_in)),  # type: ignore[typeddict-item]  # tiers have names of their own
        output_token_details=OutputTokenDetails(**_stated(spent_out)),  # type: ignore[typeddict-item]  # same
    )


def _stated(counts: Mapping[str, int | None]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count is not None}


def _call(piece: Mapping[str, Any]) -> ToolCallChunk:
    function = _mapping(piece.get("function"))
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)  # Some servers send the object itself.
    name = function.get("name")
    return tool_call_chunk(
        name=name if isinstance(name, str) else None, args=arguments, id=piece["id"], index=piece["index"]
    )


def _content(content: Any) -> str | list[str | dict[Any, Any]]:
    """Return text, or the content blocks that some providers stream."""
    if isinstance(content, list):
        return [each for each in content if isinstance(each, str | dict)]
    return content if isinstance(content, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
