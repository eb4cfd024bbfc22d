"""The signing keys of the gateway, as the operator mounts them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from tests.support.gateway.fleet_api import NOW

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.delegation_token import MAX_SECONDS, DelegationClaims, verify_delegation
from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_gateway.identity.principals import PersonPrincipal, User
from fleetwright_gateway.tokens.call_chain import CallChain, own_chain
from fleetwright_gateway.tokens.key_ring import KeyRing
from fleetwright_gateway.tokens.pair_tokens import NoSigningKey, PairTokenIssuer

ADA = own_chain(PersonPrincipal(user=User(username="ada")))
CALLEE, OTHER = (
    parse_agent({"metadata": {"namespace": "team", "name": name, "uid": f"uid-of-{name}"}, "spec": {}})
    for name in ("callee", "other")
)


def write(path: Path, *keys: dict) -> None:
    path.write_text(json.dumps({"keys": list(keys)}))


def new_key(**more: float) -> dict:
    return {**ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True), **more}


def test_ring_without_a_file_names_the_problem(tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    assert ring.signing_key(NOW) is None
    assert ring.problem(NOW) == f"{tmp_path / 'keys.json'} cannot be read: No such file or directory"
    clock = Clock(now_ns=lambda: int(NOW * 1e9))
    with pytest.raises(NoSigningKey, match="cannot be read"):
        PairTokenIssuer(ring, issuer="http://gateway", clock=clock).pair_token_for(ADA, CALLEE)


def test_ring_publishes_no_private_part(tmp_path):
    write(tmp_path / "keys.json", new_key(iat=0), new_key(iat=NOW))
    ring = KeyRing(tmp_path / "keys.json")
    assert {frozenset(key) for key in ring.key_set()["keys"]} == {frozenset({"kty", "crv", "x", "y", "kid"})}
    assert ring.keys()[0].jwk["d"] not in repr(ring.keys())


def test_ring_signs_at_once_with_the_first_key_of_an_installation(tmp_path):
    only = new_key(iat=NOW)
    write(tmp_path / "keys.json", only)
    assert KeyRing(tmp_path / "keys.json").signing_key(NOW).jwk["kid"] == only["kid"]


def test_ring_respects_the_time_that_a_key_states(tmp_path):
    first, second = new_key(iat=0), new_key(iat=0, notBefore=NOW + 10)
    write(tmp_path / "keys.json", second, first)
    ring = KeyRing(tmp_path / "keys.json")
    assert ring.signing_key(NOW + 9).jwk["kid"] == first["kid"]
    assert ring.signing_key(NOW + 10).jwk["kid"] == second["kid"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": [{"kty": "RSA"}]}', '{"keys": [{"d": "secret-part"}]}'])
def test_ring_keeps_its_keys_while_the_file_is_damaged(tmp_path, caplog, text):
    path, key = tmp_path / "keys.json", new_key(iat=0)
    write(path, key)
    ring = KeyRing(path)
    assert ring.signing_key(NOW).jwk["kid"] == key["kid"]
    path.write_text(text)
    assert ring.signing_key(NOW).jwk["kid"] == key["kid"]
    assert "is not a set of private keys" in caplog.records[-1].why
    assert "secret-part" not in str(vars(caplog.records[-1]))


def test_issuer_uses_a_token_again_for_half_of_its_life(tmp_path):
    write(tmp_path / "keys.json", new_key(iat=0))
    seconds = NOW
    issuer = PairTokenIssuer(
        KeyRing(tmp_path / "keys.json"), issuer="http://gateway", clock=Clock(now_ns=lambda: int(seconds * 1e9))
    )
    first = issuer.pair_token_for(ADA, CALLEE)
    assert issuer.pair_token_for(ADA, OTHER) != first
    seconds = NOW + 29
    assert issuer.pair_token_for(ADA, CALLEE) == first
    seconds = NOW + 31
    assert issuer.pair_token_for(ADA, CALLEE) != first


def test_issuer_signs_the_shared_part_of_delegations_again_when_needed(tmp_path):
    """A delegation has the life of the agent's tasks, and never begins after the end of the caller's delegation."""
    write(tmp_path / "keys.json", new_key(iat=0))
    seconds = NOW
    ring = KeyRing(tmp_path / "keys.json")
    issuer = PairTokenIssuer(ring, issuer="http://gateway", clock=Clock(now_ns=lambda: int(seconds * 1e9)))
    limited = replace(ADA, deadline=int(NOW) + 10)
    asking = parse_agent(
        {
            "metadata": {"namespace": "team", "name": "callee", "uid": "uid-of-callee"},
            "spec": {"approvals": {"tools": ["x"]}},
        }
    )

    def claims(chain: CallChain, agent: AgentView, task: str = "t") -> DelegationClaims:
        token = issuer.delegation_for(chain, agent, task)
        return verify_delegation(token, ring.verifier(), issuer="http://gateway", now=seconds)

    first, other = claims(ADA, CALLEE), claims(ADA, CALLEE, "u")
    assert (other.task, other.token_id) == ("u", first.token_id)
    assert claims(ADA, asking).expires_at == int(NOW) + MAX_SECONDS
    assert claims(limited, CALLEE).expires_at == int(NOW) + 10
    seconds = NOW + 12
    assert claims(ADA, CALLEE).token_id == first.token_id
    assert claims(limited, CALLEE).expires_at == int(NOW) + 13
    seconds = NOW + 31
    assert claims(ADA, CALLEE).token_id != first.token_id
