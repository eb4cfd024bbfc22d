"""Direct calls with a token that is bound to the caller's key: what is accepted, and what thieves can do with it."""

import base64
import functools
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from tests.support.agent.gateway_tokens import AGENT, ANNA, CALL, KEY, Key, build_key_file, moment_in, sign_delegation

from fleetwright_agent.storage.memory.task_log import MemoryTaskLog

Open = Callable[..., Any]
SERVICE = "http://echo.team.svc.cluster.local"
"""The address of the agent in `agent.json`."""
OURS = Key("ours")
THEIRS = Key("theirs")


def thumbprint(key: Key) -> str:
    text = '{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}' % (key.public["x"], key.public["y"])  # noqa: UP031 - braces
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def bound(act: dict[str, Any] = AGENT, **changes: Any) -> str:
    return KEY.token(act, **{"cnf": {"jkt": thumbprint(OURS)}, "exp": moment_in(300), **changes})


@functools.cache
def ours() -> str:
    """Return one token for all tests of this module. The first test makes it, because it lives for 300 s."""
    return bound()


class Peer:
    """An agent that calls another one directly. Proofs are signed with PyJWT, not with the agent's own library."""

    def __init__(self, door: Any) -> None:
        self.door = door
        self.nonce = ""

    def proof(self, token: str, *, key: Key = OURS, **changes: Any) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        claims = {
            "jti": str(uuid.uuid4()), "htm": "POST", "htu": f"{SERVICE}/a2a", "iat": int(time.time()),
            "ath": digest, "nonce": self.nonce, **changes,
        }  # fmt: skip
        jwk = {name: key.public[name] for name in ("kty", "crv", "x", "y")}
        return jwt.encode(claims, key.private, algorithm="ES256", headers={"typ": "dpop+jwt", "jwk": jwk})

    async def send(self, token: str, *proofs: str, scheme: str = "DPoP", body: Any = CALL, **headers: str) -> Any:
        async with self.door.http(None) as http:
            sent = [("Authorization", f"{scheme} {token}"), *(("DPoP", each) for each in proofs), *headers.items()]
            return await http.post("/a2a", json=body, headers=sent)

    async def begin(self) -> None:
        """Get the nonce, as every caller does with its first request."""
        answer = await self.send(ours(), self.proof(ours()))
        assert answer.headers["www-authenticate"] == 'DPoP error="use_dpop_nonce", algs="ES256"'
        self.nonce = answer.headers["dpop-nonce"]


@pytest.fixture
async def peer(open_door: Open, mounted: Any) -> Peer:
    mounted.write(mounted.layout.gateway_file, build_key_file(KEY))
    made = Peer(await open_door(log=MemoryTaskLog()))
    await made.begin()
    return made


async def test_bound_token_with_a_proof_is_accepted(peer: Peer) -> None:
    token = bound()
    assert (await peer.send(token, peer.proof(token))).status_code == 200
    assert (await peer.send(token, peer.proof(token))).status_code == 200


async def test_bound_token_carries_the_principal_and_its_delegation(peer: Peer) -> None:
    act = {**AGENT, "act": ANNA}
    token = bound(act, sub="user:anna")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    body = {**CALL, "method": "SendMessage", "params": {"message": message}}
    headers = {"Fleetwright-Delegation": sign_delegation(act)}
    answer = await peer.send(token, peer.proof(token), body=body, **headers)
    assert answer.status_code == 200
    (request,) = peer.door.turn.requests
    assert request.owner == "user:anna via agent:team/lead"


ADDRESSES = [
    pytest.param(f"{SERVICE}/a2a", {}, 200, id="the address of the configuration"),
    pytest.param(f"{SERVICE.upper().replace('HTTP', 'http')}:80/a2a?x=1", {}, 200, id="the same in another form"),
    pytest.param("http://echo/a2a", {}, 200, id="the address of the card"),
    pytest.param("http://echo/a2a", {"Host": "evil.example"}, 200, id="the address of the card, and another Host"),
    pytest.param("http://evil.example/a2a", {"Host": "evil.example"}, 401, id="the Host header"),
    pytest.param("https://echo/a2a", {}, 401, id="another scheme"),
    pytest.param("http://echo:8080/a2a", {"Host": "echo:8080"}, 401, id="another port"),
    pytest.param(f"{SERVICE}.evil.example/a2a", {"Host": f"{SERVICE[7:]}.evil.example"}, 401, id="a longer name"),
    pytest.param("http://echo/a2a/x", {}, 401, id="another path"),
]


@pytest.mark.parametrize(("url", "headers", "status"), ADDRESSES)
async def test_proof_names_an_address_of_card_or_configuration(
    peer: Peer, url: str, headers: dict[str, str], status: int
) -> None:
    answer = await peer.send(ours(), peer.proof(ours(), htu=url), **headers)
    assert answer.status_code == status, answer.text
    if status == 401:
        assert answer.headers["www-authenticate"] == 'DPoP error="invalid_dpop_proof", algs="ES256"'


async def test_proof_names_the_address_of_a_changed_card(peer: Peer, mounted: Any) -> None:
    card = json.loads(mounted.layout.card_file.read_text())
    interface = {**card["supportedInterfaces"][0], "url": "https://agents.example.com/team/echo/a2a"}
    mounted.write(mounted.layout.card_file, {**card, "supportedInterfaces": [interface]})
    proof = functools.partial(peer.proof, ours())
    assert (await peer.send(ours(), proof(htu="https://agents.example.com/team/echo/a2a"))).status_code == 200
    assert (await peer.send(ours(), proof(htu="https://agents.example.com/a2a"))).status_code == 401


THEFTS: dict[str, Callable[[Peer], tuple[str, list[str], str]]] = {
    "without a proof": lambda _: (ours(), [], "invalid_dpop_proof"),
    "with the key of the thief": lambda it: (ours(), [it.proof(ours(), key=THEIRS)], "invalid_dpop_proof"),
    "with two proofs": lambda it: (ours(), [it.proof(ours()), it.proof(ours())], "invalid_dpop_proof"),
    "with a proof of another token": lambda it: (ours(), [it.proof("another")], "invalid_dpop_proof"),
    "with a proof of another method": lambda it: (ours(), [it.proof(ours(), htm="GET")], "invalid_dpop_proof"),
    "with a proof of another URL": lambda it: (ours(), [it.proof(ours(), htu="http://b/a2a")], "invalid_dpop_proof"),
    "with an old proof": lambda it: (ours(), [it.proof(ours(), iat=moment_in(-70))], "invalid_dpop_proof"),
    "with a made up nonce": lambda it: (ours(), [it.proof(ours(), nonce="x")], "use_dpop_nonce"),
    "for another agent": lambda it: (t := bound(aud="another-uid"), [it.proof(t)], "invalid_token"),
    "after its expiry": lambda it: (
        t := bound(iat=moment_in(-400), exp=moment_in(-200)),
        [it.proof(t)],
        "invalid_token",
    ),
    "that is bound to no key": lambda it: (t := KEY.token(AGENT), [it.proof(t)], "invalid_token"),
    "of the operator": lambda it: ("token-of-default", [it.proof("token-of-default")], "invalid_token"),
}  # fmt: skip


@pytest.mark.parametrize("theft", [pytest.param(each, id=name) for name, each in THEFTS.items()])
async def test_stolen_token_is_refused(peer: Peer, theft: Callable[[Peer], tuple[str, list[str], str]]) -> None:
    token, proofs, error = theft(peer)
    answer = await peer.send(token, *proofs)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == f'DPoP error="{error}", algs="ES256"'
    assert not any(each in answer.text for each in [token, *proofs])


async def test_stolen_token_is_refused_as_a_bearer_token(peer: Peer) -> None:
    answer = await peer.send(ours(), peer.proof(ours()), scheme="Bearer")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (
        401, 'DPoP error="invalid_token", algs="ES256"',
    )  # fmt: skip


async def test_replayed_proof_is_refused(peer: Peer) -> None:
    proof = peer.proof(ours())
    assert (await peer.send(ours(), proof)).status_code == 200
    answer = await peer.send(ours(), proof)
    assert answer.status_code == 401
    assert "invalid_dpop_proof" in answer.headers["www-authenticate"]


async def test_proof_from_before_a_restart_is_refused(peer: Peer, open_door: Open) -> None:
    """The memory of used proofs ends with the process, and so does its nonce."""
    proof = peer.proof(ours())
    assert (await peer.send(ours(), proof)).status_code == 200
    later = Peer(await open_door(log=MemoryTaskLog()))
    later.nonce = peer.nonce
    answer = await later.send(ours(), later.proof(ours()))
    assert "use_dpop_nonce" in answer.headers["www-authenticate"]


async def test_without_a_gateway_the_scheme_is_unknown(open_door: Open) -> None:
    peer = Peer(await open_door(log=MemoryTaskLog()))
    answer = await peer.send(ours(), peer.proof(ours()))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="echo", error="invalid_token"'
    assert "dpop-nonce" not in answer.headers
