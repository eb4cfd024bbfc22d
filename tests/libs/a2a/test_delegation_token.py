"""Delegations: what is signed, and what is refused. PyJWT checks the format independently."""

import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from fleetwright_a2a.tokens.actors import MAX_DEPTH, Actor
from fleetwright_a2a.tokens.delegation_token import (
    MAX_SECONDS,
    DelegationClaims,
    mint_delegation,
    verify_delegation,
)
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, mint, verify

NOW = 1_772_366_400
GATEWAY = "http://gateway"
KEY = ECKey.generate_key("P-256", auto_kid=True)
PUBLIC = KEY.as_dict(private=False)
CLAIMS = DelegationClaims(
    issuer=GATEWAY,
    subject="user:ada",
    actor=Actor("agent:team/lead", "u1", Actor("user:ada", "")),
    holder="agent:team/writer",
    holder_uid="u2",
    token_id="d1",
    issued_at=NOW,
    expires_at=NOW + 4200,
)
PAYLOAD: dict[str, Any] = {
    "iss": GATEWAY,
    "aud": GATEWAY,
    "sub": "user:ada",
    "act": {"sub": "agent:team/lead", "uid": "u1", "act": {"sub": "user:ada", "uid": ""}},
    "azp": "agent:team/writer",
    "azp_uid": "u2",
    "jti": "d1",
    "iat": NOW,
    "exp": NOW + 4200,
}


def signed(payload: Any = PAYLOAD, *, kind: str = "fleetwright-delegation+jwt", key: ECKey = KEY) -> str:
    head = {"alg": "ES256", "typ": kind, "kid": KEY.kid}
    return jws.serialize_compact(head, json.dumps(payload), key, algorithms=["ES256"])


def check(token: str, *, issuer: str = GATEWAY, now: float = NOW) -> DelegationClaims:
    return verify_delegation(token, KeySet([PUBLIC]), issuer=issuer, now=now)


def test_mint_delegation_writes_what_another_library_reads():
    found = jwt.decode(
        mint_delegation(CLAIMS, KEY),
        jwt.PyJWK(PUBLIC).key,
        algorithms=["ES256"],
        audience=GATEWAY,
        issuer=GATEWAY,
        options={"verify_exp": False},
    )
    assert found == PAYLOAD


def test_verify_delegation_returns_the_claims():
    assert check(mint_delegation(CLAIMS, KEY)) == CLAIMS


def chain(length: int) -> dict[str, Any]:
    return {"sub": "user:a", "uid": "", **({"act": chain(length - 1)} if length > 1 else {})}


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("a.b.c", id="garbage"),
        pytest.param(signed(kind="at+jwt"), id="the type of a pair token"),
        pytest.param(signed(key=ECKey.generate_key("P-256")), id="signed with another key"),
        pytest.param(signed({**PAYLOAD, "aud": "u2"}), id="another audience than the gateway"),
        pytest.param(signed({**PAYLOAD, "exp": NOW + MAX_SECONDS + 1}), id="too long a life"),
        pytest.param(signed({**PAYLOAD, "azp_uid": ""}), id="no holder"),
        pytest.param(signed({**PAYLOAD, "act": chain(MAX_DEPTH + 1)}), id="too deep a chain"),
        pytest.param(signed([]), id="no object"),
    ],
)
def test_verify_delegation_refuses_a_forged_token(token):
    with pytest.raises(InvalidToken):
        check(token)


@pytest.mark.parametrize("changed", [{"issuer": "http://other"}, {"now": NOW + 4230}, {"now": NOW - 31}], ids=str)
def test_verify_delegation_checks_issuer_and_times(changed):
    with pytest.raises(InvalidToken):
        check(mint_delegation(CLAIMS, KEY), **changed)


def test_delegation_and_pair_token_are_not_interchangeable():
    """A delegation authenticates no call, and a pair token gives no right to act for its principal."""
    pair = PairTokenClaims(
        issuer=GATEWAY,
        subject="user:ada",
        actor=CLAIMS.actor,
        audience="u2",
        token_id="t",
        issued_at=NOW,
        expires_at=NOW + 60,
    )
    keys = KeySet([PUBLIC])
    with pytest.raises(InvalidToken):
        verify(mint_delegation(CLAIMS, KEY), keys, issuer=GATEWAY, audience=GATEWAY, now=NOW)
    with pytest.raises(InvalidToken):
        verify_delegation(mint(pair, KEY), keys, issuer=GATEWAY, now=NOW)


def test_mint_delegation_refuses_a_long_life():
    with pytest.raises(ValueError, match="at most 86400 seconds"):
        mint_delegation(replace(CLAIMS, expires_at=NOW + MAX_SECONDS + 1), KEY)
