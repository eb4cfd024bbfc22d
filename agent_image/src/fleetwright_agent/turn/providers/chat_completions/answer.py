"""Reads the events of an answer into LangChain's chunks. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from fleetwright_agent.turn.providers.characters import mend_characters
from fleetwright_agent.turn.providers.finish_reason import UNSTATED
from fleetwright_agent.turn.providers.reasoning import RETURNED, ReasoningRecord
from fleetwright_agent.turn.providers.streaming import REFUSAL
from fleetwright_agent.turn.providers.tool_call_deltas import EXTRA, ToolCallDeltas

_PROVIDER: Final = {"model_provider": "openai"}
_PRICED_TIERS: Final = {"priority", "flex"}
"""Service tiers with prices of their own. LangChain counts their tokens under separate names."""


class AnswerReader:
    """Reads one answer. Keep one for each call."""

    def __init__(self, address: str, origin: str, thought: Callable[[str], None] | None = None) -> None:
        """Args:
        address: Marks data that only this provider may get back.
        origin: Marks the reasoning, which only this model of the provider may get back.
        thought: Receives the reasoning text.
        """
        self._address = address
        self._origin = origin
        self._thought = thought
        self._calls = ToolCallDeltas()
        self._reasoning = ReasoningRecord()
        self._choice: Any = None
        self.has_ended = False
        """True once the provider has stated why the answer ended."""

    def read(self, event: Mapping[str, Any]) -> ChatGenerationChunk | None:
        """Return the chunk of an event. Return None if the event belongs to another choice than the first."""
        choices = [each for each in _list(event.get("choices")) if isinstance(each, Mapping)]
        # Moonshot states the usage in the choice, and Groq in a field of its own.
        held = (event, *choices, _mapping(event.get("x_groq")))
        usage = next((each["usage"] for each in held if isinstance(each.get("usage"), Mapping) and each["usage"]), None)
        used = None if usage is None else usage_metadata(usage, event.get("service_tier"))
        if not choices:
            return ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))
        choice = next(filter(self._is_followed, choices), None)
        if choice is None:
            return None
        # A server that does not stream sends the whole message.
        message = self._message(_mapping(choice.get("delta") or choice.get("message")))
        message.usage_metadata = used
        return ChatGenerationChunk(message=message, generation_info=self._info(event, choice) or None)

    def build_end(self) -> ChatGenerationChunk | None:
        """Return the last chunk, which has what the provider did not state in an event; None if there is nothing."""
        fields = self._reasoning.list_fields() if self._calls.has_calls else {}
        if self.has_ended and not fields:
            return None
        kept = {RETURNED: {self._origin: fields}} if fields else {}
        return ChatGenerationChunk(
            message=AIMessageChunk(content="", additional_kwargs=kept),
            generation_info=None if self.has_ended else {"finish_reason": UNSTATED},
        )

    def _is_followed(self, choice: Mapping[str, Any]) -> bool:
        """Return True for the choice of the first event. No request asks for more, but the operator's fields may."""
        if self._choice is None:
            self._choice = choice.get("index", 0)
        return bool(choice.get("index", 0) == self._choice)

    def _message(self, delta: Mapping[str, Any]) -> AIMessageChunk:
        said, thought = split_blocks(delta.get("content"))
        thought += self._reasoning.add(delta)
        if self._thought is not None and thought:
            self._thought(thought)
        called = delta.get("tool_calls")
        # TGI streams one call as an object.
        pieces = [
            each for each in ([called] if isinstance(called, Mapping) else _list(called)) if isinstance(each, Mapping)
        ]
        numbered = self._calls.number_pieces(pieces)
        message = AIMessageChunk(
            content=said,
            tool_call_chunks=[_call(piece) for piece in numbered],
            response_metadata=dict(_PROVIDER),
        )
        if extras := self._calls.take_extras(numbered):
            message.additional_kwargs[EXTRA] = {self._address: extras}
        if refusal := delta.get("refusal"):
            message.additional_kwargs[REFUSAL] = mend_characters(str(refusal))
        return message

    def _info(self, event: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
        about = {"logprobs": choice["logprobs"]} if isinstance(choice.get("logprobs"), Mapping) else {}
        ended = choice.get("finish_reason")
        if not ended or self.has_ended:
            return about
        # Some providers repeat the end. LangChain would concatenate the texts.
        self.has_ended = True
        ends = {
            "finish_reason": str(ended),
            "model_name": event.get("model"),
            "system_fingerprint": event.get("system_fingerprint"),
            "service_tier": event.get("service_tier"),
        }
        return {**about, **{name: value for name, value in ends.items() if value and isinstance(value, str)}}


def usage_metadata(usage: Mapping[str, Any], service_tier: Any = None) -> UsageMetadata:
    """Return the provider's usage in LangChain's format. Absent counts are zero, absent details are left out.

    If the total is larger than the sum, the rest counts as output, because xAI counts reasoning only there. A total
    alone counts as input.
    """
    tokens_in = _count(usage.get("prompt_tokens"))
    tokens_out = _count(usage.get("completion_tokens")) or 0
    total = _count(usage.get("total_tokens"))
    if tokens_in is None:
        tokens_in = max(0, (total or 0) - tokens_out)
    tokens_out = max(tokens_out, (total or 0) - tokens_in)
    tier = service_tier if isinstance(service_tier, str) and service_tier in _PRICED_TIERS else None
    prefix = f"{tier}_" if tier else ""
    details_in, details_out = (
        _mapping(usage.get("prompt_tokens_details")),
        _mapping(usage.get("completion_tokens_details")),
    )
    # DeepSeek states the cached tokens in a field of its own.
    cached = _count(details_in.get("cached_tokens", usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))))
    reasoned = _count(details_out.get("reasoning_tokens"))
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
        total_tokens=tokens_in + tokens_out,
        input_token_details=InputTokenDetails(**_stated(spent_in)),  # type: ignore[typeddict-item]  # tiers have names of their own
        output_token_details=OutputTokenDetails(**_stated(spent_out)),  # type: ignore[typeddict-item]  # same
    )


def _stated(counts: Mapping[str, int | None]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count is not None}


def _call(piece: Mapping[str, Any]) -> ToolCallChunk:
    function = piece["function"]
    return tool_call_chunk(name=function["name"], args=function["arguments"], id=piece["id"], index=piece["index"])


def split_blocks(content: Any) -> tuple[str, str]:
    """Return the text and the reasoning of a content, which is a text or a list of blocks.

    Only text is stored, because other providers refuse the blocks of one provider, and some refuse their own.
    """
    if isinstance(content, str):
        return content, ""
    text, thought = "", ""
    for block in _list(content):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "thinking":
            thought += split_blocks(block.get("thinking"))[0]
        elif kind in {None, "text", "output_text"}:
            piece = block.get("text") if isinstance(block, Mapping) else block
            text += piece if isinstance(piece, str) else ""
    return text, thought


def _count(value: Any) -> int | None:
    """Return a number of tokens; None for anything else, such as -1 for a number that is not known."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
