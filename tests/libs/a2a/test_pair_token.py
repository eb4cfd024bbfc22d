"""Pair tokens: what is signed, and what is refused. PyJWT is the second opinion about the format."""

import base64
import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from fleetwright_a2a.tokens.actors import MAX_DEPTH, Actor
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet, signing_key
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, mint, verify

NOW = 1_772_366_400
KEY = ECKey.generate_key("P-256", auto_kid=True)
OTHER = ECKey.generate_key("P-256", auto_kid=True)
CLAIMS = PairTokenClaims(
    issuer="http://gateway",
    subject="user:ada",
    actor=Actor("agent:team/caller", "u1", Actor("user:ada", "")),
    audience="u2",
    token_id="t1",
    issued_at=NOW,
    expires_at=NOW + 300,
)
PAYLOAD: dict[str, Any] = {
    "iss": "http://gateway",
    "sub": "user:ada",
    "act": {"sub": "agent:team/caller", "uid": "u1", "act": {"sub": "user:ada", "uid": ""}},
    "client_id": "agent:team/caller",
    "aud": "u2",
    "jti": "t1",
    "iat": NOW,
    "exp": NOW + 300,
}


def public(key: ECKey) -> dict[str, Any]:
    return dict(key.as_dict(private=False))


def key_set() -> KeySet:
    return KeySet([public(KEY)])


def signed(payload: Any = PAYLOAD, *, key: Any = KEY, **header: Any) -> str:
    head = {"alg": "ES256", "typ": "at+jwt", "kid": KEY.kid, **header}
    return jws.serialize_compact(head, json.dumps(payload), key, algorithms=[head["alg"]])


def check(token: str, **changed: Any) -> PairTokenClaims:
    return verify(token, key_set(), **{"issuer": "http://gateway", "audience": "u2", "now": NOW, **changed})


def test_mint_writes_a_token_that_another_library_accepts():
    token = mint(CLAIMS, signing_key(KEY.as_dict(private=True)))
    public_key = jwt.PyJWK(public(KEY)).key
    found = jwt.decode(
        token, public_key, algorithms=["ES256"], audience="u2", issuer="http://gateway", options={"verify_exp": False}
    )
    assert found == PAYLOAD
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "at+jwt", "kid": KEY.kid}


def test_verify_returns_the_claims():
    assert check(mint(CLAIMS, KEY)) == CLAIMS
    bound = replace(CLAIMS, key_thumbprint="thumb")
    assert check(mint(bound, KEY)) == bound


def with_part(index: int, part: bytes) -> str:
    parts = mint(CLAIMS, KEY).split(".")
    parts[index] = base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    return ".".join(parts)


def chain(length: int) -> dict[str, Any]:
    return {"sub": "user:a", "uid": "", **({"act": chain(length - 1)} if length > 1 else {})}


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("a.b.c", id="garbage"),
        pytest.param(signed(key=OTHER), id="signed with another key"),
        pytest.param(signed(key=OTHER, kid=OTHER.kid), id="a key that is not known"),
        pytest.param(signed(typ="JWT"), id="another type"),
        pytest.param(
            jws.serialize_compact(
                {"alg": "HS256", "typ": "at+jwt", "kid": KEY.kid},
                json.dumps(PAYLOAD),
                OctKey.import_key(json.dumps(public(KEY))),
                algorithms=["HS256"],
            ),
            id="the public key as a shared secret",
        ),
        pytest.param(with_part(0, json.dumps({"alg": "none", "typ": "at+jwt", "kid": KEY.kid}).encode()), id="none"),
        pytest.param(with_part(1, json.dumps({**PAYLOAD, "sub": "user:root"}).encode()), id="a changed claim"),
        pytest.param(signed({**PAYLOAD, "aud": ["u2"]}), id="a list of audiences"),
        pytest.param(signed({**PAYLOAD, "exp": NOW + 301}), id="too long a life"),
        pytest.param(signed({**PAYLOAD, "exp": True}), id="a time that is no number"),
        pytest.param(signed({**PAYLOAD, "client_id": "agent:team/other"}), id="another client"),
        pytest.param(signed({**PAYLOAD, "act": chain(MAX_DEPTH + 1), "client_id": "user:a"}), id="too deep a chain"),
        pytest.param(signed({name: value for name, value in PAYLOAD.items() if name != "act"}), id="no actor"),
        pytest.param(signed([]), id="no object"),
        pytest.param(signed({**PAYLOAD, "pad": "x" * 9000}), id="too large"),
    ],
)
def test_verify_refuses_a_forged_token(token):
    with pytest.raises(InvalidToken):
        check(token)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"issuer": "http://other"}, "the token has another issuer"),
        ({"audience": "u3"}, "the token is for another audience"),
        ({"now": NOW + 330}, "the token is not valid at this time"),
        ({"now": NOW - 31}, "the token is not valid at this time"),
    ],
)
def test_verify_checks_a_cached_token_again(changed, reason):
    keys, token = key_set(), mint(CLAIMS, KEY)
    values = {"issuer": "http://gateway", "audience": "u2", "now": NOW}
    assert verify(token, keys, **values) == CLAIMS
    with pytest.raises(InvalidToken) as error:
        verify(token, keys, **{**values, **changed})
    assert error.value.reason == reason


def test_mint_refuses_a_long_life_and_a_deep_chain():
    with pytest.raises(ValueError, match="at most 300 seconds"):
        mint(replace(CLAIMS, expires_at=NOW + 301), KEY)
    actor = Actor("user:a", "")
    for _ in range(MAX_DEPTH):
        actor = Actor("user:a", "", actor)
    with pytest.raises(ValueError, match="at most 8 actors"):
        mint(replace(CLAIMS, actor=actor), KEY)


@pytest.mark.parametrize(
    "jwk",
    [
        pytest.param({}, id="empty"),
        pytest.param({**public(KEY), "crv": "P-384"}, id="another curve"),
        pytest.param(KEY.as_dict(private=True), id="a private key"),
        pytest.param({**public(KEY), "kid": ""}, id="no key id"),
    ],
)
def test_key_set_refuses_other_keys(jwk):
    with pytest.raises(ValueError, match="key"):
        KeySet([jwk])
    with pytest.raises(ValueError, match="private key"):
        signing_key(public(KEY))
