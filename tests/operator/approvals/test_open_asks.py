"""The store of open questions, and how fast an agent may open new ones."""

from tests.operator.approvals.test_open_ask import ASK

from fleetwright_api import names
from fleetwright_operator.approvals.open_ask import MAX_OPEN, parse_listing
from fleetwright_operator.approvals.open_asks import OpenAsks


def listing(*asks: str):
    found = parse_listing({"version": "1", "open": [{**ASK, "ask": ask} for ask in asks]}, now=0)
    assert found is not None
    return found


def test_open_asks_knows_an_agent_by_its_uid():
    asks = OpenAsks(lambda: 0)
    name = names.approval("clerk", "a")
    assert not asks.is_known("shop", "clerk", uid="one")
    assert asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert not asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert asks.find("shop", "clerk", name, uid="one")
    assert asks.find("shop", "clerk", name, uid="two") is None
    assert not asks.is_known("shop", "clerk", uid="two")
    assert asks.put("shop", "clerk", uid="two", listing=listing())
    assert asks.approvals("shop", "clerk") == []


def test_open_asks_reports_the_first_list_even_if_empty():
    asks = OpenAsks(lambda: 0)
    assert asks.put("shop", "clerk", uid="one", listing=listing())
    assert not asks.put("shop", "clerk", uid="one", listing=listing())
    asks.forget("shop", "clerk")
    assert asks.put("shop", "clerk", uid="one", listing=listing())


def test_open_asks_lets_an_agent_open_one_per_second_after_a_burst():
    moment = [0]
    asks = OpenAsks(lambda: moment[0])
    asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert [asks.wait_to_open("shop", "clerk") for _ in range(MAX_OPEN)] == [0.0] * MAX_OPEN
    assert asks.wait_to_open("shop", "clerk") == 1.0
    moment[0] = 2
    assert [asks.wait_to_open("shop", "clerk") for _ in range(3)] == [0.0, 0.0, 1.0]
