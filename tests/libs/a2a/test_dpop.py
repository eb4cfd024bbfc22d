"""Proofs of possession: what a proof says, and the attacks that a verifier refuses. PyJWT checks them independently."""

import base64
import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import jwt
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from fleetwright_a2a.tokens.dpop import (
    InvalidProof,
    NonceRequired,
    Nonces,
    ProofRequest,
    ProofVerifier,
    make_proof,
    new_proof_key,
    normalised,
    thumbprint,
)

NOW = 1_772_366_400
URL = "http://writer.team/a2a"
TOKEN = "access-token"
KEY = new_proof_key()
OTHER = new_proof_key()
NONCES = Nonces(b"secret of this verifier")
NONCE = NONCES.current(NOW)
REQUEST = ProofRequest("POST", [URL], TOKEN, thumbprint(KEY))
PUBLIC = {name: value for name, value in KEY.as_dict(private=False).items() if name in {"kty", "crv", "x", "y"}}
ATH = base64.urlsafe_b64encode(sha256(TOKEN.encode()).digest()).rstrip(b"=").decode()
CLAIMS: dict[str, Any] = {"jti": "p1", "htm": "POST", "htu": URL, "iat": NOW, "ath": ATH, "nonce": NONCE}


def proof(**changed: Any) -> str:
    values = {"method": "POST", "url": URL, "now": NOW, "token": TOKEN, "nonce": NONCE, **changed}
    return make_proof(values.pop("key", KEY), **values)


def signed(claims: Any = CLAIMS, *, key: Any = KEY, **header: Any) -> str:
    head = {"alg": "ES256", "typ": "dpop+jwt", "jwk": PUBLIC, **header}
    return jws.serialize_compact(head, json.dumps(claims), key, algorithms=[head["alg"]])


def check(
    *proofs: str, request: ProofRequest = REQUEST, verifier: ProofVerifier | None = None, now: float = NOW
) -> str:
    return (verifier or ProofVerifier()).verify(proofs, request, nonces=NONCES, now=now)


def test_proof_is_what_another_library_reads():
    made = proof(proof_id="p1")
    assert jwt.decode(made, jwt.PyJWK(KEY.as_dict(private=False)).key, algorithms=["ES256"]) == CLAIMS
    assert jwt.get_unverified_header(made) == {"alg": "ES256", "typ": "dpop+jwt", "jwk": PUBLIC}


def test_thumbprint_is_that_of_rfc_7638():
    canonical = json.dumps({name: PUBLIC[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    expected = base64.urlsafe_b64encode(sha256(canonical.encode()).digest()).rstrip(b"=").decode()
    assert thumbprint(KEY) == expected
    assert check(proof()) == expected


@pytest.mark.parametrize(
    ("proofs", "reason"),
    [
        pytest.param([], "exactly one", id="stolen token without a proof"),
        pytest.param([proof(), proof()], "exactly one", id="two proofs"),
        pytest.param([proof(key=OTHER)], "another key", id="stolen token with another key"),
        pytest.param([proof(method="GET")], "another method", id="another method"),
        pytest.param([proof(url="http://writer.team/other")], "another URL", id="another path"),
        pytest.param([proof(url="http://reader.team/a2a")], "another URL", id="another agent"),
        pytest.param([proof(url="https://writer.team/a2a")], "another URL", id="another scheme"),
        pytest.param([proof(token="another")], "another token", id="another token"),
        pytest.param([proof(token="")], "another token", id="no token"),
        pytest.param([proof(now=NOW - 61)], "too old", id="an old proof"),
        pytest.param([proof(now=NOW + 61)], "too old", id="a proof from the future"),
        pytest.param([signed(key=OTHER)], "signature", id="signed with another key than it shows"),
        pytest.param([signed(typ="JWT")], "type or algorithm", id="another type"),
        pytest.param(
            [signed(alg="HS256", key=OctKey.import_key(json.dumps(PUBLIC)))],
            "type or algorithm",
            id="algorithm confusion",
        ),
        pytest.param([signed(jwk=KEY.as_dict(private=True))], "malformed", id="a private key in the header"),
        pytest.param([signed({**CLAIMS, "jti": ""})], "a claim", id="no identifier"),
        pytest.param([signed({**CLAIMS, "iat": True})], "a claim", id="a time that is no number"),
        pytest.param([signed({**CLAIMS, "htu": "writer"})], "names no URL", id="a URL without a scheme"),
        pytest.param([signed({**CLAIMS, "jti": "\ud800"})], "a claim", id="half of a character in the identifier"),
        pytest.param([signed([])], "no claims", id="no object"),
        pytest.param([signed({**CLAIMS, "pad": "x" * 2048})], "too large", id="too large"),
        pytest.param(["a.b.c"], "malformed", id="garbage"),
        pytest.param(["\x00é"], "malformed", id="no text"),
    ],
)
def test_verify_refuses_a_proof(proofs, reason):
    with pytest.raises(InvalidProof, match=reason) as error:
        check(*proofs)
    assert not isinstance(error.value, NonceRequired)


def test_verify_refuses_a_key_on_another_curve():
    key = ECKey.generate_key("P-384")
    forged = signed(jwk=key.as_dict(private=False))
    with pytest.raises(InvalidProof):
        check(forged)


def test_verify_refuses_a_replayed_proof():
    verifier, used = ProofVerifier(), proof()
    check(used, verifier=verifier)
    with pytest.raises(InvalidProof, match="used before"):
        check(used, verifier=verifier, now=NOW + 59)
    check(proof(), verifier=verifier)
    with pytest.raises(InvalidProof, match="too old"):
        check(used, verifier=verifier, now=NOW + 61)


def test_verifier_remembers_a_bounded_number_of_proofs():
    verifier = ProofVerifier(most=3)
    for _ in range(10):
        check(proof(), verifier=verifier)
    assert len(verifier._seen) == 3
    check(proof(now=NOW + 200, nonce=NONCES.current(NOW + 200)), verifier=verifier, now=NOW + 200)
    assert len(verifier._seen) == 1


@pytest.mark.parametrize(
    ("nonce", "now"),
    [
        pytest.param("", NOW, id="none"),
        pytest.param(Nonces(b"another verifier").current(NOW), NOW, id="of another verifier"),
        pytest.param(NONCES.current(NOW - 240), NOW, id="an old one"),
        pytest.param("é", NOW, id="no text in ASCII"),
        pytest.param("\ud800", NOW, id="half of a character"),
    ],
)
def test_verify_demands_a_current_nonce(nonce, now):
    with pytest.raises(NonceRequired):
        check(signed({**CLAIMS, "nonce": nonce}), now=now)


def test_nonce_is_valid_on_every_replica_for_minutes():
    replica = Nonces(b"secret of this verifier")
    assert replica.accepts(NONCE, NOW)
    assert replica.accepts(NONCE, NOW + 119)
    assert not replica.accepts(NONCE, NOW + 240)


def test_verify_at_a_token_endpoint_accepts_any_key():
    request = ProofRequest("POST", ["http://gateway/oauth/token", "https://agents.example.com/oauth/token"])
    sent = proof(url="https://agents.example.com/oauth/token", token="", key=OTHER)
    assert check(sent, request=request) == thumbprint(OTHER)
    with pytest.raises(InvalidProof, match="another token"):
        check(proof(url="http://gateway/oauth/token"), request=request)
    with pytest.raises(InvalidProof, match="another key"):
        check(sent, request=replace(request, key_thumbprint=thumbprint(KEY)))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Writer.Team:80/a2a?x=1#y", "http://writer.team/a2a"),
        ("https://h:443", "https://h/"),
        ("https://h:80/", "https://h:80/"),
        ("http://[::1]:7870/A", "http://[::1]:7870/A"),
    ],
)
def test_normalised_url(url, expected):
    assert normalised(url) == expected


@pytest.mark.parametrize("url", ["", "writer", "ftp://h/", "http://", "http://u@h/", "http://h:x/"])
def test_normalised_refuses_what_is_no_url(url):
    with pytest.raises(ValueError):
        normalised(url)
