"""The cache of the parsed cards of agents that the gateway translates for."""

import pytest
from tests.support.gateway.served_gateway import CARD

from fleetwright_gateway.proxy.translation.parsed_cards import ParsedCards

CHANGED = {**CARD, "capabilities": {"streaming": False}}


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        pytest.param([("a", CARD)], True, id="the same card"),
        pytest.param([("b", CARD)], True, id="another agent"),
        pytest.param([("a", CHANGED), ("a", CARD)], False, id="a card that has changed"),
        pytest.param([("b", CARD), ("c", CARD)], False, id="more agents than the bound"),
        pytest.param([("b", CARD), ("a", CARD), ("c", CARD)], True, id="the least recently used is dropped"),
    ],
)
def test_parsed_cards_keep_recent_cards(calls, kept):
    cards = ParsedCards(most=2)
    first = cards.card("a", CARD)
    for agent, document in calls:
        cards.card(agent, document)
    assert (cards.card("a", CARD) is first) is kept


def test_parsed_cards_follow_changes():
    cards = ParsedCards()
    found = [cards.card("a", document) for document in (CARD, CHANGED, {**CHANGED})]
    assert [card.streaming for card in found] == [True, False, False]
    assert len({id(card) for card in found}) == 3


def test_parsed_cards_return_none_for_an_invalid_card():
    cards = ParsedCards()
    assert cards.card("a", {"name": 3}) is None
    assert cards.card("a", {"name": 3}) is None
