"""A signed card is accepted by the verifiers of the A2A SDKs, in Python and in JavaScript; an edited one is not."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.types import AgentCard
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from google.protobuf import json_format
from google.protobuf.json_format import ParseDict
from jwt import PyJWK
from jwt.exceptions import PyJWKSetError
from tests.support.installed_programs import require_programs
from tests.support.machine import ceiling

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_operator.build.card import served_card, unsigned
from fleetwright_operator.credentials.jws import new_secret, signing_key
from fleetwright_operator.credentials.keyring import CardKey, Ring, card_signatures, key_set

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "js"
Card = dict[str, Any]
Verify = Callable[[Card, str], str]
"""Returns the verified payload if the SDK shows it. Raises ValueError if no signature is valid."""


def ring(size: int) -> Ring:
    secrets = [new_secret() for _ in range(size)]
    return tuple(CardKey(signing_key(secret), secret, 0) for secret in secrets)


def signed(card: Card, keys: Ring, *, jku: str = "") -> Card:
    return {**card, "signatures": card_signatures(card, ring=keys, jku=jku)}


def in_python(card: Card, keys: str) -> str:
    trusted = {key["kid"]: PyJWK(key) for key in json.loads(keys)["keys"]}

    def known(kid: str | None, jku: str | None) -> PyJWK:
        if kid not in trusted:
            raise PyJWKSetError(f"no key {kid}")
        return trusted[kid]

    verify = create_signature_verifier(known, ["ES256"])
    try:
        verify(ParseDict(card, AgentCard()))
    except InvalidSignaturesError as error:
        raise ValueError(str(error)) from error
    return ""


@pytest.fixture(scope="session")
def in_javascript(process_ring: None) -> Verify:
    require_programs("node", "npm")
    installed = _installed("npm")

    def verify(card: Card, keys: str) -> str:
        asked = json.dumps({"card": card, "keySet": json.loads(keys)})
        done = subprocess.run(
            ["node", installed / "verify.mjs"], input=asked, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr)
        return done.stdout

    return verify


def _installed(npm: str) -> Path:
    """Return the folder for this version of lock and program. The first test process that finishes names the folder."""
    content = b"".join(file.read_bytes() for file in sorted(SOURCES.iterdir()))
    folder = ROOT / "build" / f"card-verifier-{hashlib.sha256(content).hexdigest()[:10]}"
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        shutil.copytree(SOURCES, fresh)
        subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=fresh, check=True, capture_output=True, timeout=ceiling()
        )
        try:
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh)
    return folder


@pytest.fixture(params=["python", pytest.param("javascript", marks=pytest.mark.process)])
def verify(request: pytest.FixtureRequest) -> Verify:
    if request.param == "python":
        return in_python
    found: Verify = request.getfixturevalue("in_javascript")
    return found


def golden_card(golden: str) -> Card:
    documents = yaml.safe_load_all((ROOT / f"tests/operator/golden/{golden}.yaml").read_text())
    config_map = next(body for body in documents if names.CONFIG_KEY in body.get("data", {}))
    card: Card = json.loads(config_map["data"][names.CARD_KEY])
    return card


HARD = 'Zeilen\nund "Zitate", \\ \u20ac \U0001f600 \u2028 \u007f \u0001'
CARDS = [
    pytest.param(lambda: golden_card("agent-least"), id="the least"),
    pytest.param(lambda: golden_card("agent-full"), id="every field"),
    pytest.param(lambda: {**golden_card("agent-full"), "description": HARD}, id="characters that are easily misspelt"),
    pytest.param(lambda: {**golden_card("agent-full"), "documentationUrl": ""}, id="an empty field"),
]


@pytest.mark.parametrize("make", CARDS)
@pytest.mark.parametrize("jku", ["", "https://keys.example.com/jwks.json"])
def test_sdk_accepts_a_signed_card(verify: Verify, make: Callable[[], Card], jku: str) -> None:
    keys = ring(1)
    verify(signed(make(), keys, jku=jku), key_set(keys))


def test_both_sdks_canonicalize_a_card_identically(in_javascript: Verify) -> None:
    from a2a.utils.signing import _canonicalize_agent_card

    keys, card = ring(1), {**golden_card("agent-full"), "description": HARD}
    assert in_javascript(signed(card, keys), key_set(keys)) == _canonicalize_agent_card(ParseDict(card, AgentCard()))


def test_overlapping_card_keys_each_verify_the_card(verify: Verify) -> None:
    keys = ring(2)
    card = signed(golden_card("agent-full"), keys)
    for known in keys:
        verify(card, key_set((known,)))


EDITS = [
    pytest.param({"description": "Pays out money."}, id="another description"),
    pytest.param({"supportedInterfaces": []}, id="no interface"),
    pytest.param({"iconUrl": "https://evil.example/poet.png"}, id="another icon"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_sdk_refuses_an_edited_card(verify: Verify, edit: Card) -> None:
    keys = ring(2)
    with pytest.raises(ValueError, match="No valid signature"):
        verify({**signed(golden_card("agent-full"), keys), **edit}, key_set(keys))


def test_sdk_refuses_a_card_signed_by_an_unknown_key(verify: Verify) -> None:
    with pytest.raises(ValueError, match="No valid signature"):
        verify(signed(golden_card("agent-full"), ring(1)), key_set(ring(1)))


def test_signing_is_deterministic() -> None:
    keys, card = ring(2), golden_card("agent-full")
    assert canonical_json(signed(card, keys)) == canonical_json(signed(dict(reversed(card.items())), keys))


GOLDEN = pytest.mark.parametrize("golden", ["agent-least", "agent-full"])


def served(golden: str, keys: Ring) -> Card:
    text = served_card(golden_card(golden), lambda card: card_signatures(card, ring=keys, jku="")).text
    document: Card = json.loads(text)
    return document


@GOLDEN
def test_sdks_verify_the_card_that_is_served_for_all_versions(in_javascript: Verify, golden: str) -> None:
    keys = ring(1)
    card = served(golden, keys)
    assert set(card) > set(golden_card(golden)) | {"url", "preferredTransport"}
    in_javascript(card, key_set(keys))
    # The SDK's resolver makes the same changes to a card before it verifies it.
    in_python(json_format.MessageToDict(parse_agent_card(card)), key_set(keys))


@GOLDEN
def test_served_card_is_valid_in_version_0_3(golden: str) -> None:
    read = v03.AgentCard.model_validate(served(golden, ring(1)))
    old = [each for each in golden_card(golden)["supportedInterfaces"] if each["protocolVersion"] == "0.3"]
    assert (read.protocol_version, read.url, read.preferred_transport) == ("0.3.0", old[0]["url"], "JSONRPC")
    assert read.additional_interfaces is not None
    assert {(each.url, each.transport) for each in read.additional_interfaces} == {
        (each["url"], each["protocolBinding"]) for each in old
    }
    assert read.security_schemes is not None
    assert {name: scheme.root.type for name, scheme in read.security_schemes.items()} == {
        "agent-least": {"bearer": "http"},
        "agent-full": {"bearer": "http", "apiKey": "apiKey"},
    }[golden]
    assert read.security is not None
    assert {name for alternative in read.security for name in alternative} == set(read.security_schemes)
    assert all(list(alternative.values()) == [[]] for alternative in read.security), "one scheme is enough"


def test_served_card_has_0_1_fields_only_if_0_1_is_enabled() -> None:
    card = served("agent-least", ring(1))
    assert card["authentication"] == {"schemes": ["bearer"]}
    assert card["capabilities"].keys() >= {"streaming", "pushNotifications", "stateTransitionHistory"}
    assert card["url"].endswith("/a2a")
    assert "authentication" not in served("agent-full", ring(1))


def test_served_card_of_1_0_alone_has_no_older_fields() -> None:
    card = golden_card("agent-push")
    card["supportedInterfaces"] = [each for each in card["supportedInterfaces"] if each["protocolVersion"] == "1.0"]
    assert json.loads(served_card(card, unsigned).text) == card
