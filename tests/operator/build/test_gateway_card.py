"""The signed cards of an agent at the addresses of the gateway."""

import json

import pytest

from fleetwright_operator.build.card import agent_card
from fleetwright_operator.build.gateway_card import gateway_cards
from fleetwright_operator.settings import GatewayReference, PodSelector

INSIDE = "http://fleetwright-gateway.system"
OUTSIDE = "https://agents.example.com/ai"


def signed(card):
    return [{"protected": "p", "signature": card["supportedInterfaces"][0]["url"]}]


def cards(objects, public_url="", **spec):
    view = objects.agent_view(**spec)
    gateway = GatewayReference(url=INSIDE, public_url=public_url, pods=PodSelector(namespace="system"))
    own = agent_card(view, url="http://poet.shop.svc.cluster.local", skills=[])
    return {key: json.loads(text) for key, text in gateway_cards(own, view, gateway, signed).items()}


@pytest.mark.parametrize(
    ("public_url", "wanted"),
    [
        pytest.param("", {"gateway-card.json": INSIDE}, id="one address"),
        pytest.param(
            f"{OUTSIDE}/", {"gateway-card.json": OUTSIDE, "gateway-card-inside.json": INSIDE}, id="two addresses"
        ),
    ],
)
def test_gateway_cards_have_signed_addresses_of_the_gateway(objects, public_url, wanted):
    found = cards(objects, public_url, a2a={"publicURL": "https://elsewhere.example.com"})
    assert found.keys() == wanted.keys()
    for key, base in wanted.items():
        card, url = found[key], f"{base}/agents/shop/poet/a2a"
        assert {each["url"] for each in card["supportedInterfaces"]} == {url}
        assert {each["url"] for each in card["additionalInterfaces"]} == {url}
        assert card["url"] == url
        assert card["signatures"] == [{"protected": "p", "signature": url}]


def test_gateway_cards_accept_only_the_credential_of_the_gateway(objects):
    (card,) = cards(objects, auth={"apiKey": True}).values()
    assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]
    assert list(card["securitySchemes"]) == ["bearer"]
    assert "audience of the gateway" in json.dumps(card["securitySchemes"])


def test_gateway_cards_hide_the_skills_that_the_public_card_hides(objects):
    declared = {"skills": [{"id": "secret", "name": "Secret", "description": "d", "tags": ["t"]}]}
    shown = [skill["id"] for skill in next(iter(cards(objects, a2a=declared).values()))["skills"]]
    assert shown == ["secret"]
    hidden = {**declared, "publicCard": "Minimal"}
    assert [skill["id"] for skill in next(iter(cards(objects, a2a=hidden).values()))["skills"]] == ["chat"]


@pytest.mark.parametrize(
    ("public_url", "wanted"),
    [
        pytest.param("", {"gateway-extended-card.json": INSIDE}, id="one address"),
        pytest.param(
            OUTSIDE,
            {"gateway-extended-card.json": OUTSIDE, "gateway-extended-card-inside.json": INSIDE},
            id="two addresses",
        ),
    ],
)
def test_extended_cards_have_the_skills_and_the_addresses_of_the_gateway(objects, public_url, wanted):
    skill = {"id": "secret", "name": "Secret", "description": "d", "tags": ["t"]}
    found = cards(objects, public_url, a2a={"skills": [skill], "publicCard": "Minimal"})
    extended = {key: card for key, card in found.items() if "extended" in key}
    assert extended.keys() == wanted.keys()
    for key, base in wanted.items():
        url = f"{base}/agents/shop/poet/a2a"
        assert [each["id"] for each in extended[key]["skills"]] == ["secret"]
        assert {each["url"] for each in extended[key]["supportedInterfaces"]} == {url}
        assert extended[key]["signatures"] == [{"protected": "p", "signature": url}]


def test_installation_without_gateway_has_no_gateway_cards(objects):
    view = objects.agent_view()
    assert gateway_cards(agent_card(view, url="http://poet", skills=[]), view, None, signed) == {}


ALL = [("1.0", "JSONRPC"), ("1.0", "HTTP+JSON"), ("0.3", "JSONRPC"), ("0.3", "HTTP+JSON"), ("0.1", "JSONRPC")]


@pytest.mark.parametrize(
    ("dialects", "wanted"),
    [
        pytest.param(["1.0", "0.3", "0.1"], ALL, id="every version"),
        pytest.param(["1.0"], [each for each in ALL if each != ("0.3", "HTTP+JSON")], id="1.0"),
        pytest.param(["1.0", "0.3"], ALL, id="1.0 and 0.3"),
        pytest.param(["1.0", "0.1"], [each for each in ALL if each != ("0.3", "HTTP+JSON")], id="1.0 and 0.1"),
    ],
)
def test_gateway_cards_list_the_versions_that_are_translated(objects, dialects, wanted):
    (card,) = cards(objects, a2a={"dialects": dialects}).values()
    listed = [(each["protocolVersion"], each["protocolBinding"]) for each in card["supportedInterfaces"]]
    assert listed == wanted
    assert {each["url"] for each in card["supportedInterfaces"]} == {f"{INSIDE}/agents/shop/poet/a2a"}
    assert (card["protocolVersion"], card["preferredTransport"]) == ("0.3.0", "JSONRPC")
    assert card["authentication"] == {"schemes": ["bearer"]}
