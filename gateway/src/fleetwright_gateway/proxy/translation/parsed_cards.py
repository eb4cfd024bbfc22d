"""A cache of the parsed cards of agents. Pure.

The informer replaces the card of an agent when it changes, and never modifies it. An entry is therefore valid as long
as the agent's card is the same object.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from fleetwright_a2a.card import Card, parse_card

_MOST: Final = 64


class ParsedCards:
    def __init__(self, *, most: int = _MOST) -> None:
        """Args: `most` is the number of agents whose cards are kept; the least recently used card is dropped."""
        self._most = most
        self._entries: OrderedDict[str, tuple[Mapping[str, Any], Card | None]] = OrderedDict()

    def card(self, agent: str, document: Mapping[str, Any]) -> Card | None:
        """Return the card of an agent, or None if it is not valid.

        Args:
            agent: The uid of the agent.
            document: The card as JSON.
        """
        entry = self._entries.get(agent)
        if entry is None or entry[0] is not document:
            entry = (document, _parsed(document))
            self._entries[agent] = entry
        self._entries.move_to_end(agent)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return entry[1]


def _parsed(document: Mapping[str, Any]) -> Card | None:
    try:
        return parse_card(json.dumps(document).encode())
    except ValueError:
        return None
