"""The store of open questions, and how fast an agent may open new ones."""

from tests.support.operator.approvals import ASK

from fleetwright_api import names
from fleetwright_operator.approvals.approval_listing import MAX_OPEN, parse_listing
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex


def listing(*asks: str):
    found = parse_listing({"version": "1", "open": [{**ASK, "ask": ask} for ask in asks]}, now=0)
    assert found is not None
    return found


def test_index_knows_an_agent_by_its_uid():
    asks = OpenApprovalIndex(lambda: 0)
    name = names.approval("clerk", "a")
    assert not asks.is_known("shop", "clerk", uid="one")
    assert asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert not asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert asks.find("shop", "clerk", name, uid="one")
    assert asks.find("shop", "clerk", name, uid="two") is None
    assert not asks.is_known("shop", "clerk", uid="two")
    assert asks.put("shop", "clerk", uid="two", listing=listing())
    assert asks.approvals("shop", "clerk") == []


def test_index_reports_the_first_list_even_if_empty():
    asks = OpenApprovalIndex(lambda: 0)
    assert asks.put("shop", "clerk", uid="one", listing=listing())
    assert not asks.put("shop", "clerk", uid="one", listing=listing())
    asks.forget("shop", "clerk")
    assert asks.put("shop", "clerk", uid="one", listing=listing())


def test_agent_may_sleep_after_a_list_or_without_one():
    asks = OpenApprovalIndex(lambda: 0)
    assert not asks.may_sleep("shop", "clerk", uid="one")
    assert [asks.put_not_served("shop", "clerk", uid="one") for _ in range(2)] == [True, False]
    assert [asks.may_sleep("shop", "clerk", uid=uid) for uid in ("one", "two")] == [True, False]
    assert not asks.is_known("shop", "clerk", uid="one")
    asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert asks.may_sleep("shop", "clerk", uid="one")
    asks.forget("shop", "clerk")
    assert not asks.may_sleep("shop", "clerk", uid="one")
    asks.put_not_served("shop", "clerk", uid="one")
    asks.forget("shop", "clerk")
    assert not asks.may_sleep("shop", "clerk", uid="one")


def test_index_lets_an_agent_open_one_per_second_after_a_burst():
    moment = [0]
    asks = OpenApprovalIndex(lambda: moment[0])
    asks.put("shop", "clerk", uid="one", listing=listing("a"))
    assert [asks.wait_to_open("shop", "clerk") for _ in range(MAX_OPEN)] == [0.0] * MAX_OPEN
    assert asks.wait_to_open("shop", "clerk") == 1.0
    moment[0] = 2
    assert [asks.wait_to_open("shop", "clerk") for _ in range(3)] == [0.0, 0.0, 1.0]
