"""The calls of tools in chat completions: which call a streamed piece belongs to, and what has to go back with it.

Providers that are only compatible give their calls no number, or all of them the same; the stock client drops the first
kind without a word, and the pieces of the second end up in one another. Some send with a call what only they can read
(`extra_content`, such as the signature of a thought), and refuse the next request without it; the stock client drops
that as well. Refuses: giving it to anybody but the address that it came from.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

EXTRA: Final = "extra_content"


class Called:
    """The calls of one answer while it comes."""

    def __init__(self) -> None:
        self._identities: list[str] = []
        self._places: dict[Any, int] = {}
        """By the provider's own numbers; it may have none."""
        self._told: set[str] = set()

    def numbered(self, delta: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same, each call in its own place, by one identifier."""
        pieces = delta.get("tool_calls")
        return {**delta, "tool_calls": [self._placed(each) for each in pieces]} if pieces else delta

    def extras(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """What came with calls of a numbered piece, by the calls' identifiers; each once, for pieces are added up."""
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
        # Not by the identifier alone: some make one up for every piece.
        begins = bool((piece.get("function") or {}).get("name"))
        if place is None or (begins and identity and self._identities[place] not in ("", identity)):
            place = self._places[number] = len(self._identities)
            self._identities.append("")
        self._identities[place] = self._identities[place] or identity
        return place


def returned(messages: Sequence[BaseMessage], sent: Sequence[dict[str, Any]], address: str) -> None:
    """Puts back into a request what came from that address with its calls."""
    for message, body in zip(messages, sent, strict=True):
        extras = message.additional_kwargs.get(EXTRA, {}).get(address)
        for call in body.get("tool_calls", ()) if extras else ():
            if call["id"] in extras:
                call[EXTRA] = extras[call["id"]]


def renamed(message: AIMessage, former: str, identity: str) -> None:
    """What came with a call goes back with it under the name that the call has now."""
    for extras in message.additional_kwargs.get(EXTRA, {}).values():
        if former in extras:
            extras[identity] = extras.pop(former)
