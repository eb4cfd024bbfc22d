"""The operator creates the keys, the gateway signs with them, and the runtime accepts the tokens."""

import base64
import json
from pathlib import Path

import pytest

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.server.gateway_tokens import GatewayCaller, GatewayTokens, parse_gateway_keys
from fleetwright_agent.server.gateway_tokens import TrustedGateway as RuntimeTrust
from fleetwright_api.spec.agent import parse_agent
from fleetwright_gateway.identity.principals import AgentPrincipal, PersonPrincipal, Principal, User
from fleetwright_gateway.tokens.call_chain import own_chain
from fleetwright_gateway.tokens.key_ring import KeyRing
from fleetwright_gateway.tokens.pair_tokens import PairTokenIssuer
from fleetwright_operator.build.config.gateway import GatewayTrust
from fleetwright_operator.credentials.jws import new_secret
from fleetwright_operator.credentials.keyring import Ring, renew_ring, ring_text
from fleetwright_operator.credentials.rotation import Rotation

ISSUER = "http://fleetwright-gateway.fleetwright-system"
START = 1_772_366_400
ROTATION = Rotation(ttl=30 * 86_400, overlap=3600)
CALLEE = "uid-of-the-callee"
ADA = PersonPrincipal(user=User(username="ada"))
LEAD = AgentPrincipal(namespace="team", name="lead", uid="uid-of-lead")


class Installation:
    """The files as the operator mounts them, and the gateway and one agent that read them."""

    def __init__(self, folder: Path) -> None:
        self.seconds = START
        self.ring: Ring = ()
        self._folder = folder
        clock = Clock(now_ns=lambda: self.seconds * 1_000_000_000, monotonic=lambda: float(self.seconds))
        self.gateway = PairTokenIssuer(KeyRing(folder / "keys.json"), issuer=ISSUER, clock=clock)
        self.parsed: list[bytes] = []

        def parse(raw: bytes) -> RuntimeTrust:
            self.parsed.append(raw)
            return parse_gateway_keys(raw)

        watcher = FileWatcher(folder / "gateway.json", parse, monotonic=clock.monotonic)
        self.agent = GatewayTokens(watcher, addresses=tuple, clock=clock)
        self.renew()

    def renew(self) -> None:
        """Run the operator's step for the keys, and write both files."""
        self.ring = renew_ring(self.ring, now=self.seconds, rotation=ROTATION, new_secret=new_secret)
        trust = GatewayTrust(issuer=ISSUER, audience=CALLEE, keys=self.ring)
        for name, text in {"keys.json": ring_text(self.ring), "gateway.json": trust.file}.items():
            fresh = self._folder / f"{name}.new"
            fresh.write_text(text)
            fresh.replace(self._folder / name)

    def pair_token(self, caller: Principal, audience: str) -> str:
        agent = parse_agent({"metadata": {"namespace": "team", "name": "callee", "uid": audience}, "spec": {}})
        return self.gateway.pair_token_for(own_chain(caller), agent)

    def owner(self, caller: Principal, *, audience: str = CALLEE) -> str | None:
        found = self.agent.identify(self.pair_token(caller, audience))
        return found.owner if isinstance(found, GatewayCaller) else None


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_agent_accepts_the_token_of_the_gateway(installation):
    assert installation.owner(ADA) == "user:ada"
    assert installation.owner(LEAD) == "agent:team/lead"


def test_agent_refuses_the_token_for_another_agent(installation):
    assert installation.owner(ADA, audience="uid-of-another") is None


def test_token_ends_after_a_minute(installation):
    token = installation.pair_token(ADA, CALLEE)
    installation.seconds += 60 + 29
    assert isinstance(installation.agent.identify(token), GatewayCaller)
    installation.seconds += 2
    assert not isinstance(installation.agent.identify(token), GatewayCaller)


def test_gateway_signs_with_a_new_key_five_minutes_after_it_was_published(installation):
    """An agent that has not read the new key yet accepts every token in the meantime."""
    first = installation.ring[0].key.kid
    installation.seconds += ROTATION.ttl
    old_trust = (installation._folder / "gateway.json").read_bytes()
    installation.renew()
    assert len(installation.ring) == 2
    signing = installation.gateway.ring.signing_key
    for later, kid in ((0, first), (299, first), (300, installation.ring[0].key.kid)):
        assert signing(installation.seconds + later).jwk["kid"] == kid
    new_trust = (installation._folder / "gateway.json").read_bytes()
    (installation._folder / "gateway.json").write_bytes(old_trust)
    assert installation.owner(ADA) == "user:ada"
    (installation._folder / "gateway.json").write_bytes(new_trust)
    installation.seconds += 300
    assert installation.owner(ADA) == "user:ada"
    installation.seconds += ROTATION.overlap
    installation.renew()
    assert len(installation.ring) == 1
    assert installation.owner(ADA) == "user:ada"


def test_flood_of_unknown_keys_reads_no_file_again(installation):
    """Many unknown key ids make the agent read its file at most once, and send no request to another address."""
    installation.parsed.clear()
    token = installation.pair_token(ADA, CALLEE)
    _, claims, signature = token.split(".")
    for number in range(500):
        header = base64.urlsafe_b64encode(
            json.dumps({"alg": "ES256", "typ": "at+jwt", "kid": f"unknown-{number}", "jku": "http://evil"}).encode()
        )
        forged = f"{header.rstrip(b'=').decode()}.{claims}.{signature}"
        assert not isinstance(installation.agent.identify(forged), GatewayCaller)
    assert len(installation.parsed) <= 1
    assert installation.owner(ADA) == "user:ada"
