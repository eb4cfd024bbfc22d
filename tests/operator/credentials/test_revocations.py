"""Which callers are revoked, and for how long."""

import pytest

from fleetwright_operator.credentials.revocations import (
    KEEP_SECONDS,
    Revocation,
    WrittenCallers,
    read_revocations,
    renew_revocations,
)

NOW = 1_772_366_400
LOST = Revocation(caller="a", not_before=NOW + 30)


@pytest.mark.parametrize(
    ("written", "allowed", "now", "expected"),
    [
        pytest.param(WrittenCallers(), {"a"}, NOW, (), id="a new caller"),
        pytest.param(WrittenCallers(allowed=frozenset("a")), {"a", "b"}, NOW, (), id="another caller"),
        pytest.param(WrittenCallers(allowed=frozenset("ab")), {"b"}, NOW, (LOST,), id="a withdrawn caller"),
        pytest.param(WrittenCallers(revoked=(LOST,)), set(), NOW + 300, (LOST,), id="a caller that is revoked already"),
        pytest.param(WrittenCallers(revoked=(LOST,)), {"a"}, NOW + 60, (), id="a caller that is allowed again"),
        pytest.param(WrittenCallers(revoked=(LOST,)), set(), LOST.ends, (), id="no valid token is left"),
        pytest.param(
            WrittenCallers(allowed=frozenset("a"), revoked=(LOST,)), set(), NOW + 9, (LOST,), id="a failed write"
        ),
    ],
)
def test_renew_revocations(written, allowed, now, expected):
    assert renew_revocations(written, allowed=allowed, now=now) == expected


def test_revocation_lasts_longer_than_any_token():
    """A token lives for at most five minutes, and clocks may differ by 30 seconds."""
    assert LOST.ends - NOW >= 300 + 30
    assert KEEP_SECONDS == 360


def test_read_revocations_skips_damaged_entries():
    found = [LOST.document, {"caller": "x"}, "y", {"caller": 1, "notBefore": 2}, {"caller": "z", "notBefore": True}]
    assert read_revocations(found) == (LOST,)
