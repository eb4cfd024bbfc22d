"""The digest of arguments, and which arguments people see as data."""

import hashlib

import pytest

from fleetwright_agent.protocol.arguments import arguments_digest, reviewable, with_integers


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2.0, "a": 1.0}, True, id="order and whole numbers"),
        pytest.param({"a": "é"}, {"a": "\u00e9"}, True, id="escapes"),
        pytest.param({"a": 1}, {"a": True}, False, id="a number and a truth value"),
        pytest.param({"a": 1}, {"a": "1"}, False, id="a number and a text"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, False, id="the order of a list"),
        pytest.param({}, {"a": None}, False, id="a missing value and null"),
        pytest.param({"a": 2**60}, {"a": 2**60 + 1}, False, id="numbers that doubles cannot tell apart"),
        pytest.param({"a": float("nan")}, {"a": 1}, False, id="a number that JSON does not have"),
        pytest.param({"a": "\ud800"}, {"a": "\ud801"}, False, id="half of a character"),
    ],
)
def test_digest_depends_on_values_only(one, other, same):
    assert (arguments_digest(one) == arguments_digest(other)) is same


def test_digest_is_that_of_canonical_json():
    canonical = b'{"a":1,"b":[1.5,"x"]}'
    assert arguments_digest({"b": [1.5, "x"], "a": 1.0}) == f"sha256:{hashlib.sha256(canonical).hexdigest()}"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param({"a": [1, {"b": None}]}, True, id="plain values"),
        pytest.param(nested(10), True, id="some levels"),
        pytest.param(nested(17), False, id="too many levels"),
        pytest.param(nested(5000), False, id="thousands of levels"),
        pytest.param({"a": "x" * 32_000}, True, id="32 kilobytes"),
        pytest.param({"a": "x" * 33_000}, False, id="more than 32 KiB"),
        pytest.param({"a": 2**60}, False, id="a number that is not exact"),
        pytest.param({"a": float("inf")}, False, id="a number that JSON does not have"),
        pytest.param({"a": "\ud800"}, False, id="half of a character"),
    ],
)
def test_reviewable_arguments_are_exact_and_bounded(arguments, shown):
    assert reviewable(arguments) == (arguments if shown else None)


def test_with_integers_keeps_other_values():
    value = with_integers({"a": 3.0, "b": 3.5, "c": [2.0, "2.0"], "d": True, "e": 1e300})
    assert value == {"a": 3, "b": 3.5, "c": [2, "2.0"], "d": True, "e": 1e300}
    assert [type(value[key]) for key in "abde"] == [int, float, bool, float]
