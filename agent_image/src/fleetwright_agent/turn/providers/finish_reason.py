"""Maps the providers' finish reasons to the reason why an answer ended. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

_AT_LIMIT: Final = {"length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"}


class FinishReason(Enum):
    OWN = "the model finished the answer"
    LIMIT = "the answer reached the token limit"
    NONE = "the answer is incomplete"


def end_of(about: Mapping[str, Any]) -> FinishReason:
    """Args: `about` is the provider's metadata of an answer or of a chunk."""
    ended = about.get("finish_reason") or about.get("stop_reason")
    if not ended:
        return FinishReason.NONE
    return FinishReason.LIMIT if str(ended) in _AT_LIMIT else FinishReason.OWN
