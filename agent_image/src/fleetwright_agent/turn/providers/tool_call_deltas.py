"""Assembles streamed tool calls of chat completions, and sends their provider-specific data back to the provider.

Some compatible providers give their calls no index, or give all calls the same index. The stock client silently drops
calls without an index, and mixes up calls with the same index. Some providers attach opaque data to a call
(`extra_content`, such as a thought signature), and refuse the next request without this data. The stock client drops
the data. This module returns the data only to the address from which it came.
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
        """The position of each call by the provider's index; the index may be None."""
        self._told: set[str] = set()

    def numbered(self, delta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the delta with a unique index and one id for each call."""
        pieces = delta.get("tool_calls")
        return {**delta, "tool_calls": [self._placed(each) for each in pieces]} if pieces else delta

    def extras(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new extra data of a delta by call id. Each is returned once, because deltas are concatenated."""
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
    """Add extra data to the calls of a request, if the data came from this address."""
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
