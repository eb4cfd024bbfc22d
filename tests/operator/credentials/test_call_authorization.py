"""Which agents may call each other, and the tokens that this requires."""

import pytest

from fleetwright_api import names
from fleetwright_api.call_authorization import allowed_peers, callers_of
from fleetwright_operator.build.callers import Tokens, callers_document
from fleetwright_operator.credentials.rotating_token import RotatingToken, Token
from fleetwright_operator.credentials.tokens import is_token, mint_token

CONSENT = [
    pytest.param(None, True, id="silence is consent"),
    pytest.param({"agents": [{"name": "poet"}]}, True, id="being named is consent"),
    pytest.param({"agents": [{"name": "editor"}]}, False, id="only another is named"),
    pytest.param({"agents": []}, False, id="nobody is named"),
    pytest.param({}, False, id="a list that is not there names nobody"),
]


@pytest.mark.parametrize(("allowed", "wanted"), CONSENT)
def test_call_requires_peer_and_consent_and_both_sides_agree(objects, allowed, wanted):
    spec = {} if allowed is None else {"allowedCallers": allowed}
    callee, caller = objects.agent_view("helper", **spec), objects.agent_view("poet", peers=[{"name": "helper"}])
    assert callers_of(callee, [caller], {}) == ((("shop", "poet"),) if wanted else ())
    assert allowed_peers(caller, {("shop", "helper"): callee}, {}) == ((("shop", "helper"),) if wanted else ())


LABELS = {"shop": {"team": "a"}, "press": {"team": "b"}}
ACROSS = [
    pytest.param(None, False, id="silence is no consent to another namespace"),
    pytest.param({"agents": [{"name": "poet"}]}, False, id="a namesake of the own namespace is meant"),
    pytest.param({"agents": [{"name": "poet", "namespace": "press"}]}, True, id="named with its namespace"),
    pytest.param({"namespaces": {"from": "Same"}}, False, id="only the own namespace"),
    pytest.param({"namespaces": {"from": "All"}}, True, id="every namespace"),
    pytest.param(
        {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}}, True, id="a label that it has"
    ),
    pytest.param(
        {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}}, False, id="a label of others"
    ),
]


@pytest.mark.parametrize(("allowed", "wanted"), ACROSS)
def test_call_from_another_namespace_requires_consent(objects, allowed, wanted):
    spec = {} if allowed is None else {"allowedCallers": allowed}
    callee = objects.agent_view("helper", **spec)
    caller = objects.agent_view("poet", namespace="press", peers=[{"name": "helper", "namespace": "shop"}])
    assert callers_of(callee, [caller], LABELS) == ((("press", "poet"),) if wanted else ())
    assert allowed_peers(caller, {("shop", "helper"): callee}, LABELS) == ((("shop", "helper"),) if wanted else ())


def test_namespace_selector_matches_no_unknown_labels(objects):
    invitation = {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}
    callee = objects.agent_view("helper", allowedCallers={"namespaces": invitation})
    caller = objects.agent_view("poet", namespace="press", peers=[{"name": "helper", "namespace": "shop"}])
    assert callers_of(callee, [caller], {}) == ()


def test_caller_must_list_its_peer(objects):
    callee = objects.agent_view("helper", allowedCallers={"agents": [{"name": "poet"}]})
    assert callers_of(callee, [objects.agent_view("poet")], {}) == ()


def test_agent_is_never_its_own_caller(objects):
    narcissus = objects.agent_view("poet", peers=[{"name": "poet"}])
    assert callers_of(narcissus, [narcissus], {}) == ()
    assert allowed_peers(narcissus, {("shop", "poet"): narcissus}, {}) == ()


def test_mint_token_returns_unique_valid_tokens():
    assert is_token(mint_token())
    assert mint_token() != mint_token()


@pytest.mark.parametrize("text", [None, "", "short", "x" * 42, "x" * 42 + " ", "ü" * 43])
def test_is_token_rejects_damaged_text(text):
    assert not is_token(text)


def test_callers_document_contains_digests_only():
    held = {name: RotatingToken(Token(f"t{name}")) for name in ("a", "b", "p")}
    document = callers_document(Tokens(clients={"b": held["b"], "a": held["a"]}, callers={"shop/poet": held["p"]}))
    assert [(each["kind"], each["name"]) for each in document["callers"]] == [
        ("client", "a"),
        ("client", "b"),
        ("agent", "shop/poet"),
    ]
    assert not any(token in str(document) for token in ("ta'", "tb'", "tp'"))
    assert all(len(each["sha256"]) == 64 for each in document["callers"])


async def test_token_is_stable_and_replaced_if_damaged(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    first = api.find("Secret", "poet-client-default")["data"]["token"]
    api.edit("Agent", "poet", {"spec": {"instructions": "Other."}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] == first

    api.edit("Secret", "poet-client-default", {"data": {"token": "IQ=="}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] not in {first, "IQ=="}


async def test_deleted_token_is_not_restored_by_a_concurrent_write(world, api, objects):
    """A token deleted while another child is written is not put back."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    first = api.find("Secret", "poet-client-default")["data"]["token"]

    def taken_away(_: int, what: str) -> None:
        if "ConfigMap" in what and api.has("Secret", "poet-client-default"):
            api.fault = lambda *_: None
            api.remove("Secret", "poet-client-default")

    api.fault = taken_away
    api.edit("Agent", "poet", {"spec": {"instructions": "Other."}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] != first


async def test_removed_client_loses_its_secret(world, api, objects):
    api.put(objects.agent(auth={"clients": [{"name": "web"}, {"name": "ops"}]}))
    await world.start()
    await world.settle()
    assert api.has("Secret", "poet-client-web")
    api.put(objects.agent(auth={"clients": [{"name": "ops"}]}))
    await world.settle()
    assert not api.has("Secret", "poet-client-web")
    assert api.has("Secret", "poet-client-ops")


def test_peer_token_key_round_trips():
    assert names.peer_of_token_key(names.peer_token_key("shop", "helper")) == ("shop", "helper")
    assert names.peer_of_token_key("callers.json") is None
