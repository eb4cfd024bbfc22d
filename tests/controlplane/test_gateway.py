"""The gateway against a real API server, with exactly the chart's rights."""

import base64
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from e2e.cluster.ports import free_ports
from joserfc.jwk import ECKey

ACCOUNT = "fleetwright-gateway"
SYSTEM = "fleetwright-system"
_PATHS = {
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def token_of(admin: Any, namespace: str, account: str, *audiences: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    spec = {"expirationSeconds": 3600, **({"audiences": list(audiences)} if audiences else {})}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(admin.request("POST", path, asked)["status"]["token"])


@pytest.fixture(scope="module")
def account_token(control_plane, admin, chart_of, kubeconfig) -> str:
    """The token of the gateway's ServiceAccount, whose rights and admission policy come from the chart."""
    for body in chart_of("fleetwright", gateway={"enabled": True}):
        if body["metadata"].get("labels", {}).get("app.kubernetes.io/component") != "gateway":
            continue
        if body["kind"] in _PATHS:
            path = f"{_PATHS[body['kind']]}/{body['metadata']['name']}?fieldManager=test"
            admin.request("PATCH", path, body, "application/apply-patch+yaml")
        elif body["kind"] == "ServiceAccount" or "rbac" in body["apiVersion"]:
            admin.apply(body)
    return token_of(admin, SYSTEM, ACCOUNT)


@dataclass
class Process:
    port: int
    ops_port: int

    def status(self, path: str, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._get(f"http://127.0.0.1:{self.port}{path}", headers)

    def is_ready(self) -> bool:
        try:
            return self._get(f"http://127.0.0.1:{self.ops_port}/readyz", {})[0] == 200
        except OSError:
            return False

    @staticmethod
    def _get(url: str, headers: dict[str, str]) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read())


def _parsed(text: bytes) -> Any:
    return json.loads(text) if text.startswith(b"{") else text


@pytest.fixture
def gated(alone: Any) -> Any:
    """The operator of an installation with a gateway. It writes the cards that the gateway serves."""
    return alone("gated", gateway={"enabled": True})


@pytest.fixture
def gateway(control_plane, account_token, gated, space, tmp_path: Path) -> Iterator[Process]:
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{**key, "iat": 0}]}))
    (tmp_path / "token").write_text(account_token)
    shutil.copy(control_plane.ca, tmp_path / "ca.crt")
    server = urlsplit(control_plane.server)
    made = Process(*free_ports())
    environment = {
        **os.environ,
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "FLEETWRIGHT_GATEWAY_KEYS_FILE": str(tmp_path / "keys.json"),
        "FLEETWRIGHT_GATEWAY_SERVICE_ACCOUNT": str(tmp_path),
        "FLEETWRIGHT_GATEWAY_PORT": str(made.port),
        "FLEETWRIGHT_GATEWAY_OPS_PORT": str(made.ops_port),
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "fleetwright_gateway"], env=environment, stderr=log)
    try:
        space.eventually(made.is_ready, f"the gateway is ready; see {tmp_path / 'log'}", seconds=180)
        yield made
    finally:
        process.terminate()
        assert process.wait(120) == 0, (tmp_path / "log").read_text()


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
    allowed = token_of(admin, space.name, "ci", ACCOUNT)
    space.eventually(lambda: gateway.status(card, allowed)[0] == 200, "the gateway serves the card")
    assert gateway.status(card, allowed)[1]["name"] == "callee"
    assert gateway.status(card)[0] == 401
    assert gateway.status(card, token_of(admin, space.name, "ci"))[0] == 401
    assert gateway.status(card, token_of(admin, space.name, "stranger", ACCOUNT))[0] == 404
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


def test_deleted_signing_keys_are_replaced_without_overlap(gated, space, admin):
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
