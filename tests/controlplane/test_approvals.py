"""The permissions for Approvals: the CRD's rules, the chart's admission policy and its aggregated roles."""

import pytest
from e2e.cluster.deploy import SYSTEM
from tests.support.controlplane.administrator import LONG_SECONDS, OPERATOR_ACCOUNT, PATHS, Refusal
from tests.support.controlplane.approvals import MERGE, account_username, decide, manifest, may_read


def test_person_with_edit_decides_with_a_merge_patch(approval, client, space, admin):
    found = decide(client("alice"), approval, account_username(space, "alice"), reason="fine", arguments={"order": 8})
    assert found["spec"]["decision"] == "Approved"
    (row,) = (
        dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
        for table in [admin.request("GET", approval, accept="application/json;as=Table;v=v1;g=meta.k8s.io")]
    )
    assert (row["Agent"], row["Tool"], row["Decided-By"]) == (
        "clerk",
        "orders__refund",
        account_username(space, "alice"),
    )
    # The same decision again changes nothing.
    again = decide(client("alice"), approval, account_username(space, "alice"), reason="fine", arguments={"order": 8})
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"decision": "Denied"}, id="another decision"),
        pytest.param({"reason": "no"}, id="another reason"),
        pytest.param({"arguments": {"order": 9}}, id="other arguments"),
        pytest.param({"arguments": {"order": 8, "deep": {"x": 1}}}, id="arguments that differ inside"),
        pytest.param({"decidedBy": "bob"}, id="another person"),
        pytest.param(dict.fromkeys(("decision", "decidedBy", "reason", "arguments")), id="none"),
    ],
)
def test_decision_is_made_once_and_names_the_first_decider(approval, client, space, patch):
    decide(
        client("alice"),
        approval,
        account_username(space, "alice"),
        reason="fine",
        arguments={"order": 8, "deep": {"x": 2}},
    )
    for name in ("alice", "bob"):
        whole = {**patch, "decidedBy": account_username(space, "bob")} if patch.get("decidedBy") == "bob" else patch
        with pytest.raises(Refusal, match=f"{account_username(space, 'alice')} has already decided Approved"):
            client(name).request("PATCH", approval, {"spec": whole}, MERGE)


@pytest.mark.parametrize(
    "patch", [{"decision": "Denied"}, {"decision": None, "decidedBy": None}], ids=["other", "none"]
)
def test_refusal_has_the_time_of_the_first_decision(approval, client, space, patch):
    decide(client("alice"), approval, account_username(space, "alice"))
    status = {"decided": "2026-03-01T12:34:56Z"}
    client("operator").request("PATCH", f"{approval}/status", {"status": status}, MERGE)
    with pytest.raises(
        Refusal, match=f"{account_username(space, 'alice')} has already decided Approved at 2026-03-01T12:34:56Z"
    ):
        client("bob").request("PATCH", approval, {"spec": patch}, MERGE)


def test_decider_must_be_the_user_of_the_request(approval, client, space):
    with pytest.raises(Refusal, match=f"must be your own username: {account_username(space, 'alice')}"):
        decide(client("alice"), approval, account_username(space, "bob"))


def test_agent_of_the_chain_may_not_decide_whatever_rbac_grants(approval, client, space):
    with pytest.raises(Refusal, match="forbiddenDeciders names you"):
        decide(client("clerk"), approval, account_username(space, "clerk"))
    with pytest.raises(Refusal, match="must be your own username"):
        decide(client("clerk"), approval, account_username(space, "alice"))


KEPT = "fleetwright.dev/kept"
REFUSED = [
    pytest.param({"spec": {"request": {"preview": "nothing"}}}, "request cannot be changed", id="the request"),
    pytest.param({"spec": {"request": {"arguments": {"order": 9}}}}, "request cannot be changed", id="the arguments"),
    pytest.param({"spec": {"request": {"forbiddenDeciders": []}}}, "request cannot be changed", id="the deciders"),
    pytest.param({"metadata": {"labels": {"fleetwright.dev/agent": "x"}}}, "not labels, annotations", id="a label"),
    pytest.param(
        {"metadata": {"annotations": {"example.com/note": "x"}}}, "not labels, annotations", id="an annotation"
    ),
    pytest.param(
        {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "y"}}},
        "not labels, annotations",
        id="another of kubectl",
    ),
    pytest.param({"metadata": {"annotations": {KEPT: "x"}}}, "not labels, annotations", id="a changed annotation"),
    pytest.param({"metadata": {"annotations": {KEPT: None}}}, "not labels, annotations", id="a removed annotation"),
    pytest.param({"metadata": {"finalizers": ["example.com/stay"]}}, "not labels, annotations", id="a finalizer"),
    pytest.param({"spec": {"decision": "Approved"}}, "decision and decidedBy belong together", id="no decider"),
    pytest.param({"spec": {"reason": "why"}}, "reason is part of a decision", id="only a reason"),
    pytest.param({"spec": {"arguments": {}}}, "arguments are the edited arguments", id="only arguments"),
    pytest.param(
        {"spec": {"decision": "Denied", "decidedBy": "x", "arguments": {}}},
        "arguments are the edited",
        id="a denied edit",
    ),
    pytest.param({"spec": {"decision": "Maybe", "decidedBy": "x"}}, "Unsupported value", id="another word"),
]


@pytest.mark.parametrize(("patch", "says"), REFUSED)
def test_person_may_change_only_the_decision(approval, client, patch, says):
    client("operator").request("PATCH", approval, {"metadata": {"annotations": {KEPT: "old"}}}, MERGE)
    with pytest.raises(Refusal, match=says):
        client("alice").request("PATCH", approval, patch, MERGE)


def test_person_may_decide_with_kubectl_apply(approval, client, space):
    """`kubectl apply` stores what it has sent in an annotation. The installation allows one annotation of a webhook."""
    client("operator").request("PATCH", approval, {"metadata": {"annotations": {KEPT: "old"}}}, MERGE)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/changed-by": "alice"}
    decision = {"decision": "Denied", "decidedBy": account_username(space, "alice")}
    found = client("alice").request("PATCH", approval, {"metadata": {"annotations": applied}, "spec": decision}, MERGE)
    assert found["metadata"]["annotations"] == {KEPT: "old", **applied}
    left = client("alice").request("PATCH", approval, {"metadata": {"annotations": dict.fromkeys(applied)}}, MERGE)
    assert left["metadata"]["annotations"] == {KEPT: "old"}


def test_person_may_neither_delete_nor_set_the_status(approval, client, admin):
    with pytest.raises(Refusal):
        client("alice").request("DELETE", approval)
    # An administrator, whom RBAC allows everything, may not either.
    with pytest.raises(Refusal, match="Only the operator deletes Approvals"):
        admin.request("DELETE", approval)
    with pytest.raises(Refusal, match="Only the operator changes the status"):
        admin.request("PATCH", f"{approval}/status", {"status": {"phase": "Approved"}}, MERGE)
    with pytest.raises(Refusal, match="Only the operator creates Approvals"):
        admin.request(
            "POST", approval.rpartition("/")[0], {**admin.request("GET", approval), "metadata": {"name": "x"}}
        )


def test_role_view_reads_but_does_not_decide(approval, client, space):
    viewer = client("viewer")
    space.eventually(lambda: may_read(viewer, approval), "the role view includes approvals")
    with pytest.raises(Refusal, match="cannot patch"):
        decide(viewer, approval, account_username(space, "viewer"))


def test_operator_may_not_decide_but_may_remove_a_decision(approval, client, space):
    operator = client("operator")
    with pytest.raises(Refusal, match="it may not decide"):
        decide(operator, approval, f"system:serviceaccount:{SYSTEM}:{OPERATOR_ACCOUNT}")
    body = manifest(space, "clerk-2", decision="Approved", decidedBy="x")
    with pytest.raises(Refusal, match="created without a decision"):
        operator.request("POST", PATHS["Approval"].format(space.name), body)
    decide(client("alice"), approval, account_username(space, "alice"), reason="fine", arguments={"order": 8})
    removed = dict.fromkeys(("decision", "decidedBy", "reason", "arguments"))
    left = operator.request("PATCH", approval, {"spec": removed}, MERGE)
    assert set(left["spec"]) == {"request"}
    assert decide(client("bob"), approval, account_username(space, "bob"), "Denied")["spec"][
        "decidedBy"
    ] == account_username(space, "bob")


def test_closed_approval_cannot_be_decided(approval, client, space):
    status = {"phase": "Withdrawn", "closed": "2026-03-01T12:00:00Z"}
    client("operator").request("PATCH", f"{approval}/status", {"status": status}, MERGE)
    with pytest.raises(Refusal, match="This Approval is Withdrawn"):
        decide(client("alice"), approval, account_username(space, "alice"))


def test_arguments_that_are_hidden_cannot_be_edited(policy, client, space):
    body = manifest(space, "clerk-2")
    del body["spec"]["request"]["arguments"]
    path = f"{PATHS['Approval'].format(space.name)}/clerk-2"
    query = "?fieldManager=fleetwright&force=true"
    client("operator").request("PATCH", path + query, body, "application/apply-patch+yaml")
    space.eventually(lambda: may_read(client("alice"), path), "the role edit includes approvals")
    with pytest.raises(Refusal, match="the arguments of this call cannot be edited"):
        decide(client("alice"), path, account_username(space, "alice"), arguments={"order": 8})
    assert decide(client("alice"), path, account_username(space, "alice"))["spec"]["decision"] == "Approved"


def test_approvals_are_deleted_with_their_agent_and_namespace(approval, client, space, admin):
    """The garbage collector may delete what no person may delete. The namespace of every test is deleted likewise."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    space.apply(owner)
    uid = space.get("ConfigMap", "owner")["metadata"]["uid"]
    body = manifest(space, "clerk-3")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    body["metadata"]["ownerReferences"] = [reference]
    path = f"{PATHS['Approval'].format(space.name)}/clerk-3"
    query = "?fieldManager=fleetwright&force=true"
    client("operator").request("PATCH", path + query, body, "application/apply-patch+yaml")
    admin.delete("ConfigMap", space.name, "owner")
    space.eventually(lambda: not may_read(admin, path), "the garbage collector deletes it", promised=LONG_SECONDS)
