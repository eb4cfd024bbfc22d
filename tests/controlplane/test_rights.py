"""The check for missing rights at the teardown of the control plane detects a missing right."""

import pytest


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
