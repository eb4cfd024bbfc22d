"""Assembles streamed tool calls of chat completions, and returns provider-specific data with them.

Some compatible providers give their calls no index, or the same index to all. The stock client silently drops calls
without an index, and mixes up calls with the same one. Some providers attach data that only they can read to a call
(`extra_content`, such as a thought signature), and refuse the next request without it. The stock client drops that too.
Such data is returned only to the address that it came from.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

EXTRA: Final = "extra_content"


class ToolCallDeltas:
    """The tool calls of one answer while it is streamed."""

    def __init__(self) -> None:
        self._identities: list[str] = []
        self._places: dict[Any, int] = {}
        """The position of each call, by the provider's index, which may be missing."""
        self._told: set[str] = set()

    def numbered(self, delta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the delta with a unique index and one id for each call."""
        pieces = delta.get("tool_calls")
        return {**delta, "tool_calls": [self._placed(each) for each in pieces]} if pieces else delta

    def extras(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """The extra data of a numbered delta by call id, each reported once, because deltas are concatenated."""
        found: dict[str, Any] = {}
        for each in delta.get("tool_calls") or ():
            identity = self._identities[each["index"]]
            if identity and each.get(EXTRA) and identity not in self._told:
                self._told.add(identity)
                found[identity] = each[EXTRA]
        return found

    def _placed(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(piece)
        return {**piece, "index": place, "id": self._identities[place] or None}

    def _place(self, piece: Mapping[str, Any]) -> int:
        number, identity = piece.get("index"), piece.get("id") or ""
        place = self._places.get(number)
        # An id alone does not start a call, because some providers send a new id in every delta.
        begins = bool((piece.get("function") or {}).get("name"))
        if place is None or (begins and identity and self._identities[place] not in ("", identity)):
            place = self._places[number] = len(self._identities)
            self._identities.append("")
        self._identities[place] = self._identities[place] or identity
        return place


def restore_extras(messages: Sequence[BaseMessage], sent: Sequence[dict[str, Any]], address: str) -> None:
    """Add the extra data that came from this address to the calls of a request."""
    for message, body in zip(messages, sent, strict=True):
        extras = message.additional_kwargs.get(EXTRA, {}).get(address)
        for call in body.get("tool_calls", ()) if extras else ():
            if call["id"] in extras:
                call[EXTRA] = extras[call["id"]]


def move_extras(message: AIMessage, former: str, identity: str) -> None:
    """Move the extra data of a call to the call's new id."""
    for extras in message.additional_kwargs.get(EXTRA, {}).values():
        if former in extras:
            extras[identity] = extras.pop(former)
