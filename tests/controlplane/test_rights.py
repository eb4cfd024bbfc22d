"""The check for missing rights at the teardown of the control plane detects a missing right."""

import pytest
from tests.support.controlplane.administrator import PATHS
from tests.support.controlplane.approvals import may_read


def test_refusals_record_requests_of_accounts_without_rights(space, control_plane, refusal):
    """The API server's audit log records a request for which an account lacks the right."""
    path = f"/api/v1/namespaces/{space.name}/serviceaccounts/default/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = space.admin.request("POST", path, asked)["status"]["token"]
    wanted = f"/api/v1/namespaces/{space.name}/secrets"
    stranger = type(space.admin)(control_plane.server, token, control_plane.ca)
    with pytest.raises(refusal, match="cannot list resource"):
        stranger.request("GET", wanted)
    account = f"system:serviceaccount:{space.name}:default"
    # The API server may write its audit log after its response.
    told = space.eventually(lambda: [each for each in control_plane.refusals() if each.account == account], "a line")
    assert [each.request for each in told] == [f"list {wanted}"]


def test_users_with_view_read_agents_and_users_with_edit_change_them(kubeconfig, client, space, refusal):
    """The chart adds its kinds to the ClusterRoles of Kubernetes, which the controller manager aggregates."""
    space.agent("poet")
    agents = PATHS["Agent"].format(space.name)
    viewer, editor = client("viewer"), client("alice")
    space.eventually(lambda: may_read(viewer, agents) and may_read(editor, agents), "the roles include agents")
    assert [body["metadata"]["name"] for body in viewer.request("GET", agents)["items"]] == ["poet"]
    with pytest.raises(refusal, match="cannot delete resource"):
        viewer.request("DELETE", f"{agents}/poet")
    patch = {"spec": {"instructions": "Write better."}}
    changed = editor.request("PATCH", f"{agents}/poet", patch, "application/merge-patch+json")
    assert changed["spec"]["instructions"] == "Write better."
    with pytest.raises(refusal, match="cannot patch resource"):
        editor.request("PATCH", f"{agents}/poet/status", {"status": {}}, "application/merge-patch+json")
    editor.request("DELETE", f"{agents}/poet")
