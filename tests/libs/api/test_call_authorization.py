"""Which agents may call each other."""

from typing import Any

import pytest

from fleetwright_api import names
from fleetwright_api.call_authorization import allowed_peers, callers_of
from fleetwright_api.spec.agent import AgentView, parse_agent


def agent_view(name: str, *, namespace: str = "shop", **spec: Any) -> AgentView:
    model = {"name": "m", "baseURL": "https://models.example.com/v1"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    return parse_agent({"metadata": metadata, "spec": {"instructions": "Help.", "model": model, **spec}, "status": {}})


CONSENT = [
    pytest.param(None, True, id="silence is consent"),
    pytest.param({"agents": [{"name": "poet"}]}, True, id="being named is consent"),
    pytest.param({"agents": [{"name": "editor"}]}, False, id="only another is named"),
    pytest.param({"agents": []}, False, id="nobody is named"),
    pytest.param({}, False, id="a list that is not there names nobody"),
]


@pytest.mark.parametrize(("allowed", "wanted"), CONSENT)
def test_call_requires_peer_and_consent_and_both_sides_agree(allowed, wanted):
    spec = {} if allowed is None else {"allowedCallers": allowed}
    callee, caller = agent_view("helper", **spec), agent_view("poet", peers=[{"name": "helper"}])
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
def test_call_from_another_namespace_requires_consent(allowed, wanted):
    spec = {} if allowed is None else {"allowedCallers": allowed}
    callee = agent_view("helper", **spec)
    caller = agent_view("poet", namespace="press", peers=[{"name": "helper", "namespace": "shop"}])
    assert callers_of(callee, [caller], LABELS) == ((("press", "poet"),) if wanted else ())
    assert allowed_peers(caller, {("shop", "helper"): callee}, LABELS) == ((("shop", "helper"),) if wanted else ())


def test_namespace_selector_matches_no_unknown_labels():
    invitation = {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}
    callee = agent_view("helper", allowedCallers={"namespaces": invitation})
    caller = agent_view("poet", namespace="press", peers=[{"name": "helper", "namespace": "shop"}])
    assert callers_of(callee, [caller], {}) == ()


def test_caller_must_list_its_peer():
    callee = agent_view("helper", allowedCallers={"agents": [{"name": "poet"}]})
    assert callers_of(callee, [agent_view("poet")], {}) == ()


def test_agent_is_never_its_own_caller():
    narcissus = agent_view("poet", peers=[{"name": "poet"}])
    assert callers_of(narcissus, [narcissus], {}) == ()
    assert allowed_peers(narcissus, {("shop", "poet"): narcissus}, {}) == ()


def test_peer_token_key_round_trips():
    assert names.peer_of_token_key(names.peer_token_key("shop", "helper")) == ("shop", "helper")
    assert names.peer_of_token_key("callers.json") is None
