"""Approvals at a real API server: the chart's admission policy, the clients that decide, and a pending Approval."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from tests.support.controlplane.administrator import OPERATOR_ACCOUNT, PATHS, POLICY_KINDS, Admin, Refusal, Space
from tests.support.controlplane.gateway import token_of

MERGE = "application/merge-patch+json"
ClientOf = Callable[[str], Admin]


@pytest.fixture(scope="module")
def policy(admin: Admin, rendered_chart: list[dict[str, Any]], kubeconfig: Any) -> Iterator[None]:
    """The admission policy of the chart. It would refuse the Approvals that other modules create as samples."""
    found = [
        body for body in rendered_chart if body["kind"] in POLICY_KINDS and "approvals" in body["metadata"]["name"]
    ]
    assert len(found) == 2
    for body in found:
        admin.apply(body)
    yield
    for body in found:
        admin.delete(body["kind"], "", body["metadata"]["name"])


@pytest.fixture
def client(control_plane: Any, admin: Admin, space: Space) -> ClientOf:
    """Return a function that makes the client of a ServiceAccount. All but the operator may edit the namespace."""

    def make_client(name: str) -> Admin:
        if name == "operator":
            return Admin(control_plane.server, token_of(admin, SYSTEM, OPERATOR_ACCOUNT), control_plane.ca)
        return Admin(control_plane.server, token_of(admin, space.name, name), control_plane.ca)

    for name in ("alice", "bob", "clerk", "viewer"):
        space.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        role = "view" if name == "viewer" else "edit"
        admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": name, "namespace": space.name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space.name}],
            }
        )
    return make_client


def account_username(space: Space, name: str) -> str:
    return f"system:serviceaccount:{space.name}:{name}"


def manifest(space: Space, name: str = "clerk-1", **spec: Any) -> dict[str, Any]:
    request = {
        "agent": "clerk",
        "task": "t-1",
        "context": "c-1",
        "ask": "a-1",
        "tool": "orders__refund",
        "title": "Refund order 7",
        "preview": "Refund 20 EUR",
        "arguments": {"order": 7, "deep": {"list": [1, {"a": None}]}},
        "argumentsDigest": "sha256:" + "a" * 64,
        "requestedBy": "user:alice",
        "chain": ["agent:shop/front"],
        "forbiddenDeciders": [account_username(space, "clerk")],
        "createdAt": "2026-03-01T12:00:00Z",
    }
    metadata = {"name": name, "namespace": space.name, "labels": {"fleetwright.dev/agent": "clerk"}}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Approval",
        "metadata": metadata,
        "spec": {"request": request, **spec},
    }


@pytest.fixture
def approval(policy: None, client: ClientOf, space: Space) -> str:
    """The path of a pending Approval, which the operator created as it does: with server-side apply."""
    path = f"{PATHS['Approval'].format(space.name)}/clerk-1"
    query = "?fieldManager=fleetwright&force=true"
    operator = client("operator")

    def create() -> bool:
        # A new policy takes effect after a moment. The operator may create with and without it.
        operator.request("PATCH", path + query, manifest(space), "application/apply-patch+yaml")
        return True

    assert space.eventually(create, "the operator creates an Approval")
    space.eventually(lambda: _is_enforced(space), "the policy is enforced")
    # The aggregation of roles is asynchronous.
    space.eventually(lambda: may_read(client("alice"), path), "the role edit includes approvals")
    return path


def _is_enforced(space: Space) -> bool:
    try:
        # A dry run leaves no object behind, even if the policy does not apply yet.
        space.admin.request("POST", f"{PATHS['Approval'].format(space.name)}?dryRun=All", manifest(space, "probe"))
    except Refusal as refusal:
        return "Only the operator creates Approvals" in refusal.message
    return False


def may_read(client: Admin, path: str) -> bool:
    try:
        client.request("GET", path)
    except Refusal:
        return False
    return True


def decide(client: Admin, path: str, by: str, decision: str = "Approved", **more: Any) -> dict[str, Any]:
    return client.request("PATCH", path, {"spec": {"decision": decision, "decidedBy": by, **more}}, MERGE)
