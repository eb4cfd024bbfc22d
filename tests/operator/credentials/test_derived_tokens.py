"""The operator's token for an agent's approvals, as the contract with the runtime defines it."""

import base64
import hashlib
import hmac

from fleetwright_operator.credentials.derived_tokens import operator_tokens, token_digests
from fleetwright_operator.credentials.jws import signing_key
from fleetwright_operator.credentials.keyring import CardKey
from fleetwright_operator.credentials.tokens import is_token


def key(number: int) -> CardKey:
    secret = base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()
    return CardKey(signing_key(secret), secret, 0)


def expected(number: int, uid: str) -> str:
    """HKDF-SHA256 (RFC 5869) for one block, written out."""
    extracted = hmac.digest(uid.encode(), number.to_bytes(32, "big"), "sha256")
    block = hmac.digest(extracted, b"fleetwright approvals v1\x01", "sha256")
    return base64.urlsafe_b64encode(block).rstrip(b"=").decode()


def test_operator_token_is_derived_with_hkdf():
    assert operator_tokens((key(7), key(8)), "uid-1") == (expected(7, "uid-1"), expected(8, "uid-1"))
    assert operator_tokens((), "uid-1") == ()


def test_operator_token_differs_for_each_agent_and_key():
    tokens = {*operator_tokens((key(7), key(8)), "uid-1"), *operator_tokens((key(7), key(8)), "uid-2")}
    assert len(tokens) == 4
    assert all(is_token(token) for token in tokens)


def test_token_digests_are_those_of_other_callers():
    assert token_digests(["abc"]) == (hashlib.sha256(b"abc").hexdigest(),)
