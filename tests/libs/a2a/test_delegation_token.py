"""Delegations: what is signed, and what is refused. PyJWT checks the format independently."""

import json
from base64 import urlsafe_b64decode
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
    bind_task,
    is_bound,
    mint_delegation,
    task_secret,
    verify_delegation,
)
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, mint, verify

NOW = 1_772_366_400
GATEWAY = "http://gateway"
KEY = ECKey.generate_key("P-256", auto_kid=True)
PUBLIC = KEY.as_dict(private=False)
SECRET = task_secret(KEY.as_dict(private=True))
CLAIMS = DelegationClaims(
    issuer=GATEWAY,
    subject="user:ada",
    actor=Actor("agent:team/lead", "u1", Actor("user:ada", "")),
    holder="agent:team/writer",
    holder_uid="u2",
    task="t1",
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
    return bind_task(jws.serialize_compact(head, json.dumps(payload), key, algorithms=["ES256"]), "t1", SECRET)


def check(token: str, *, issuer: str = GATEWAY, now: float = NOW) -> DelegationClaims:
    return verify_delegation(token, KeySet([PUBLIC]), issuer=issuer, now=now)


def test_mint_delegation_writes_what_another_library_reads():
    grant, task, code = mint_delegation(CLAIMS, KEY).split("~")
    assert (urlsafe_b64decode(task + "=="), len(urlsafe_b64decode(code + "="))) == (b"t1", 32)
    found = jwt.decode(
        grant,
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
        pytest.param(bind_task(signed().split("~")[0], "", SECRET), id="an empty task"),
        pytest.param(bind_task(signed().split("~")[0], "t" * 129, SECRET), id="a long task"),
        pytest.param(bind_task(signed().split("~")[0], "t\n", SECRET), id="a task with a control character"),
        pytest.param(signed().split("~")[0], id="no task"),
        pytest.param(signed().rpartition("~")[0], id="no code"),
        pytest.param(f"{signed()}~{signed()}", id="two delegations"),
        pytest.param("~".join((signed().split("~")[0], "_w", "x")), id="a task that is not UTF-8"),
        pytest.param(signed({**PAYLOAD, "act": chain(MAX_DEPTH + 1)}), id="too deep a chain"),
        pytest.param(signed([]), id="no object"),
    ],
)
def test_verify_delegation_refuses_a_forged_token(token):
    with pytest.raises(InvalidToken):
        check(token)


def test_delegation_is_bound_to_one_task_by_the_gateway():
    held, other = mint_delegation(CLAIMS, KEY), task_secret(ECKey.generate_key("P-256").as_dict(private=True))
    grant, task, code = held.split("~")
    moved = bind_task(grant, "t2", other).split("~")[1]
    assert check(held).task == "t1"
    assert is_bound(held, [other, SECRET])
    forged = [f"{grant}~{moved}~{code}", bind_task(grant, "t1", other), f"{grant}~{task}~", f"{grant}~{task}", "ö~ö~ö"]
    assert [is_bound(each, [SECRET]) for each in forged] == [False] * len(forged)
    assert not is_bound(held, [])


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
