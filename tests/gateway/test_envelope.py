"""The completion of JSON-RPC envelopes."""

import itertools
import json
from collections.abc import Callable

import pytest

from fleetwright_gateway.proxy.envelope import InvalidBody, repaired


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"id{next(numbers)}"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param({"method": "m"}, {"jsonrpc": "2.0", "id": "id1", "method": "m"}, id="no envelope"),
        pytest.param({"method": "m", "id": 7}, {"jsonrpc": "2.0", "id": 7, "method": "m"}, id="an id of the caller"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "params": {"message": {"role": "user"}}},
            {"jsonrpc": "2.0", "id": 1, "params": {"message": {"role": "user", "messageId": "id1"}}},
            id="no id of the message",
        ),
        pytest.param(
            {"jsonrpc": "1.0", "params": {"message": {"messageId": "x"}}},
            {"jsonrpc": "1.0", "params": {"message": {"messageId": "x"}}},
            id="nothing is replaced",
        ),
        pytest.param({"jsonrpc": "2.0", "params": []}, {"jsonrpc": "2.0", "params": []}, id="no message"),
    ],
)
def test_repaired_completes_only_what_is_missing(body, found):
    assert json.loads(repaired(json.dumps(body).encode(), new_id=ids())) == found


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff"])
def test_repaired_refuses_what_is_no_object(body):
    with pytest.raises(InvalidBody):
        repaired(body, new_id=ids())
