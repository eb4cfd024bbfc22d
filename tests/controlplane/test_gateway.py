"""The gateway against a real API server, with exactly the chart's rights."""

import base64
import json
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from tests.support.controlplane.administrator import GATEWAY_ACCOUNT
from tests.support.controlplane.gateway import token_of


def add_callee(space: Any) -> None:
    """Create an Agent, and wait until the operator has written its card."""
    space.agent("callee")
    space.get("ConfigMap", "callee-card")


def add_account(space: Any, name: str, *, invokes: bool) -> None:
    space.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    if invokes:
        rule = {"apiGroups": ["fleetwright.dev"], "resources": ["agents/invoke"], "verbs": ["create"]}
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name, "namespace": space.name}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": space.name}]
        space.admin.apply({**rbac, "kind": "Role", "rules": [rule]})
        space.admin.apply({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": subjects})


def test_gateway_serves_callers_whom_rbac_allows(gateway, space, admin):
    add_callee(space)
    add_account(space, "ci", invokes=True)
    add_account(space, "stranger", invokes=False)
    card = f"/agents/{space.name}/callee/.well-known/agent-card.json"
    allowed = token_of(admin, space.name, "ci", GATEWAY_ACCOUNT)
    space.eventually(lambda: gateway.status(card, allowed)[0] == 200, "the gateway serves the card")
    assert gateway.status(card, allowed)[1]["name"] == "callee"
    assert gateway.status(card)[0] == 401
    assert gateway.status(card, token_of(admin, space.name, "ci"))[0] == 401
    assert gateway.status(card, token_of(admin, space.name, "stranger", GATEWAY_ACCOUNT))[0] == 404
    assert gateway.status(f"/agents/{space.name}/nobody/", allowed)[0] == 404
    assert gateway.status(f"/agents/{space.name}/callee/a2a", allowed)[0] == 503


REFUSED = [
    pytest.param({"spec": {"description": "changed"}}, "not the spec", id="the spec"),
    pytest.param({"metadata": {"labels": {"team": "b"}}}, "not labels", id="a label"),
    pytest.param({"metadata": {"finalizers": ["example.com/stay"]}}, "not labels, finalizers", id="a finalizer"),
    pytest.param({"metadata": {"annotations": {"other": "x"}}}, "not other annotations", id="a new annotation"),
    pytest.param({"metadata": {"annotations": {"kept": "y"}}}, "not other annotations", id="a changed annotation"),
    pytest.param({"metadata": {"annotations": {"kept": None}}}, "not other annotations", id="a removed annotation"),
    pytest.param(
        {"metadata": {"annotations": {"fleetwright.dev/wake": "now"}}, "spec": {"suspend": True}},
        "not the spec",
        id="a wake with another change",
    ),
]


def test_admission_policy_allows_the_gateway_to_wake_only(control_plane, account_token, space, admin, refusal):
    space.agent("callee")
    admin.merge("Agent", space.name, "callee", {"metadata": {"annotations": {"kept": "x"}, "labels": {"team": "a"}}})
    gateway = type(admin)(control_plane.server, account_token, control_plane.ca)

    def denies() -> bool:
        try:
            gateway.merge("Agent", space.name, "callee", {"metadata": {"annotations": {"other": "x"}}})
        except refusal:
            return True
        admin.merge("Agent", space.name, "callee", {"metadata": {"annotations": {"other": None}}})
        return False

    space.eventually(denies, "the API server has loaded the policy")
    for value in ("2026-03-01T12:00:00.000001Z", "2026-03-01T13:00:00.000001Z"):
        woken = gateway.merge(
            "Agent", space.name, "callee", {"metadata": {"annotations": {"fleetwright.dev/wake": value}}}
        )
        assert woken["metadata"]["annotations"] == {"kept": "x", "fleetwright.dev/wake": value}
    for case in REFUSED:
        patch, says = case.values
        with pytest.raises(refusal, match=says):
            gateway.merge("Agent", space.name, "callee", patch)
    admin.merge("Agent", space.name, "callee", {"metadata": {"labels": {"team": "b"}}})


def test_deleted_signing_keys_are_replaced_without_overlap(operator_with_gateway, space, admin):
    """After a theft, the command of the guide deletes the Secret. The rights of the chart suffice to write another."""
    name = "gated-gateway-keys"
    where = f"/api/v1/namespaces/{SYSTEM}/secrets/{name}"
    space.agent("callee", fleet={"reach": "Direct"})

    def trusted() -> set[str]:
        return {
            key["kid"] for key in json.loads(space.secret("callee-auth").get("gateway.json", '{"keys": []}'))["keys"]
        }

    def ring() -> set[str]:
        data = admin.request("GET", where)["data"]
        return {key["kid"] for key in json.loads(base64.b64decode(data["keys.json"]))["keys"]}

    space.eventually(lambda: trusted(), "the agent has the keys of the gateway")
    stolen = trusted()
    assert stolen >= ring()
    admin.request("DELETE", where)
    space.eventually(lambda: trusted().isdisjoint(stolen) and trusted(), "the agent trusts other keys only")
    assert trusted() == ring()
