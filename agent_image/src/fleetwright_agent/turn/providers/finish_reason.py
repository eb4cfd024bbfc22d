"""Maps the providers' finish reasons to the reason why an answer ended. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

_AT_LIMIT: Final = {"length", "max_tokens", "model_length"}
_AT_WINDOW: Final = "model_context_window_exceeded"
_FILTERED: Final = {
    "content_filter",
    "refusal",  # Anthropic
    "sensitive",  # Zhipu
    "guardrail_intervened",  # Bedrock
    *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "image_safety"),  # Google
}
_FAILED: Final = {
    "error",  # OpenRouter, Mistral
    "abort",  # vLLM, SGLang
    "network_error",  # Zhipu
    "insufficient_system_resource",  # DeepSeek
    *("unexpected_tool_call", "too_many_tool_calls", "malformed_response", "other", "finish_reason_unspecified"),
}


UNSTATED: Final = "unstated"
"""The finish reason of an answer whose provider stated only its end."""


class FinishReason(Enum):
    OWN = "the model finished the answer"
    UNSTATED = "the provider ended the answer without a reason"
    LIMIT = "the answer reached the token limit"
    WINDOW = "the answer reached the end of the context window"
    FILTER = "the provider's content filter ended the answer"
    ERROR = "the provider failed while answering"
    NONE = "the answer is incomplete"


def end_of(about: Mapping[str, Any]) -> FinishReason:
    """Args: `about` is the provider's metadata of an answer or of a chunk."""
    ended = about.get("finish_reason") or about.get("stop_reason")
    if not ended:
        return FinishReason.NONE
    word = str(ended).lower()
    if word == UNSTATED:
        return FinishReason.UNSTATED
    if word == _AT_WINDOW:
        return FinishReason.WINDOW
    if word in _AT_LIMIT:
        return FinishReason.LIMIT
    if word in _FILTERED:
        return FinishReason.FILTER
    return FinishReason.ERROR if word in _FAILED else FinishReason.OWN
