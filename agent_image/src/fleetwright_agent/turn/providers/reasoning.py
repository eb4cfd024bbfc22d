"""Keeps the reasoning beside a tool call, and sends it back to the provider from which it came.

DeepSeek and Moonshot refuse the request after a tool call if it lacks the reasoning that led to the call. OpenRouter
passes signatures of other providers on in `reasoning_details`. Other providers refuse these fields, so only the model
from which they came gets them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

from fleetwright_agent.turn.providers.characters import mend_characters

REASONING: Final = "reasoning_content"
_DETAILS: Final = "reasoning_details"
RETURNED: Final = "returned_reasoning"
"""The key of these fields in the additional data of a message, by model and address."""


class ReasoningRecord:
    """The reasoning of one answer while it is streamed."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._details: list[dict[str, Any]] = []

    def add(self, delta: Mapping[str, Any]) -> str:
        """Keep the reasoning of a delta, and return its text, for which providers use two names."""
        stated = delta.get(REASONING)
        if isinstance(stated, str):
            self._texts.append(stated)
        listed = delta.get(_DETAILS)
        details = [piece for piece in listed if isinstance(piece, Mapping)] if isinstance(listed, list) else []
        for piece in details:
            self._add_detail(piece)
        text = stated or delta.get("reasoning") or "".join(str(piece.get("text") or "") for piece in details)
        return text if isinstance(text, str) else ""

    def list_fields(self) -> dict[str, Any]:
        """Return the fields that the provider expects back; none if there was no reasoning."""
        text = "".join(self._texts)
        found = {**({REASONING: text} if text else {}), **({_DETAILS: self._details} if self._details else {})}
        # A character may be split between two deltas.
        mended: dict[str, Any] = mend_characters(found)
        return mended

    def _add_detail(self, piece: Mapping[str, Any]) -> None:
        last = self._details[-1] if self._details else {}
        place = ("type", "index", "id")
        if piece.get("text") and last.get("text") and all(last.get(each) == piece.get(each) for each in place):
            self._details[-1] = {**last, **piece, "text": f"{last['text']}{piece['text']}"}
        else:
            self._details.append(dict(piece))


def origin_of(model: str, address: str) -> str:
    """Return the key of the reasoning of a model at an address."""
    return f"{model}@{address}"


def restore_reasoning(messages: Sequence[BaseMessage], sent: Sequence[dict[str, Any]], origin: str) -> None:
    """Add the reasoning to the messages of a request that have tool calls, if it came from this model and address."""
    for message, body in zip(messages, sent, strict=True):
        if body.get("tool_calls"):
            body.update(message.additional_kwargs.get(RETURNED, {}).get(origin, {}))
