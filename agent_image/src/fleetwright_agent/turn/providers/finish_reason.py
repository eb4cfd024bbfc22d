"""Why an answer has ended, whatever word its provider has for it. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

_AT_LIMIT: Final = {"length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"}


class End(Enum):
    OWN = "the model had said all"
    LIMIT = "it had as many tokens as it may"
    NONE = "it broke off, or goes on"


def end_of(about: Mapping[str, Any]) -> End:
    """Args: `about` is what the provider says of the answer, or of a piece of it."""
    ended = about.get("finish_reason") or about.get("stop_reason")
    if not ended:
        return End.NONE
    return End.LIMIT if str(ended) in _AT_LIMIT else End.OWN
