"""Assembles streamed tool calls of chat completions, and sends their provider-specific data back to the provider.

Some compatible providers give their calls no index or no id, or give all calls the same index. Others repeat the name
in every delta. The stock client drops calls without an index, mixes up calls with the same index, and joins repeated
names. Some providers attach opaque data to a call (`extra_content`, such as a thought signature), and refuse the next
request without this data. The stock client drops the data. This module returns the data only to the address from which
it came.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from fleetwright_agent.turn.providers.characters import mend_characters

EXTRA: Final = "extra_content"
_SIGNS: Final = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
"""An escaped character, or one that begins or ends a text, an object or a list."""


class _ArgumentScan:
    """Finds out whether arguments that arrive in pieces are a complete JSON object. Each piece is read once."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_complete = False
        self._depth = 0
        self._is_in_text = False

    def add(self, piece: str) -> None:
        if not self._is_complete:
            self._pieces.append(piece)

    def is_complete(self) -> bool:
        text = "".join(self._pieces)
        self._pieces = []
        end = 0
        for found in _SIGNS.finditer(text):
            end = found.end()
            self._read(found[0])
            if self._is_complete:
                return True
        if text.endswith("\\") and end < len(text):
            self._pieces = ["\\"]  # The escaped character is in the next piece.
        return self._is_complete

    def _read(self, sign: str) -> None:
        if sign == '"':
            self._is_in_text = not self._is_in_text
        elif not self._is_in_text and sign in "{[":
            self._depth += 1
        elif not self._is_in_text and sign in "}]":
            self._depth -= 1
            self._is_complete = self._depth <= 0


@dataclass(slots=True)
class _GrowingCall:
    """A tool call of which more pieces may follow."""

    identity: str = ""
    name: str = ""
    arguments: _ArgumentScan = field(default_factory=_ArgumentScan)


class ToolCallDeltas:
    """The tool calls of one answer while it is streamed."""

    def __init__(self) -> None:
        self._calls: list[_GrowingCall] = []
        self._places: dict[Any, int] = {}
        """The position of each call by the provider's index; the index may be None."""
        self._told: set[str] = set()

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def number_pieces(self, pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the pieces of one delta with a unique index and one id for each call.

        A name that a call already has is not repeated, and arguments are text.
        """
        begun: set[int] = set()
        """The calls with a piece in this delta."""
        found: list[dict[str, Any]] = []
        for piece in pieces:
            placed = self._place_piece(piece, begun)
            begun.add(placed["index"])
            found.append(placed)
        return found

    def take_extras(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the new extra data of numbered pieces by call id. Each is returned once: deltas are concatenated."""
        found: dict[str, Any] = {}
        for each in pieces:
            identity = self._calls[each["index"]].identity
            if identity and each.get(EXTRA) and identity not in self._told:
                self._told.add(identity)
                found[identity] = mend_characters(each[EXTRA])
        return found

    def _place_piece(self, piece: Mapping[str, Any], begun: Collection[int]) -> dict[str, Any]:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name"), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)  # Some servers send the object itself.
        name = name if isinstance(name, str) else ""
        identity = "" if piece.get("id") is None else mend_characters(str(piece["id"]))
        place = self._find_place(piece.get("index"), identity, name, arguments or "", begun)
        call = self._calls[place]
        call.identity = call.identity or identity
        call.arguments.add(arguments or "")
        told = None if name == call.name else name
        call.name = name or call.name
        return {
            **piece,
            "index": place,
            "id": call.identity or None,
            "function": {**function, "name": told or None, "arguments": arguments},
        }

    def _find_place(self, number: Any, identity: str, name: str, arguments: str, begun: Collection[int]) -> int:
        number = number if isinstance(number, int) else None
        place = self._places.get(number)
        if place is None and self._calls and not name and not identity:
            # SGLang uses the index of the tool in the first piece, and the index of the call in the others.
            place = self._places[number] = len(self._calls) - 1
        if place is None or self._is_another(self._calls[place], identity, name, arguments, is_begun=place in begun):
            place = self._places[number] = len(self._calls)
            self._calls.append(_GrowingCall())
        return place

    @staticmethod
    def _is_another(call: _GrowingCall, identity: str, name: str, arguments: str, *, is_begun: bool) -> bool:
        """Return whether a piece with the index of a call, or without an index, belongs to another call.

        An id alone does not start a call, because some providers send a new id in every delta. A name alone does not
        either, because some repeat it in every delta.
        """
        if not name:
            return False
        if identity and call.identity and identity != call.identity:
            return True
        if identity and identity == call.identity:
            return name != call.name and bool(arguments) and call.arguments.is_complete()
        # A delta has one piece of a call, and nothing follows arguments that are complete.
        return is_begun or (call.name not in ("", name)) or (bool(arguments) and call.arguments.is_complete())


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
