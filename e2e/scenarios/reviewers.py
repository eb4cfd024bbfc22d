"""People who decide about approvals with plain kubectl, each with a ServiceAccount of the namespace."""

import json
import subprocess
from typing import Any

from e2e.scenarios.fleet import Fleet


def reviewer(fleet: Fleet, account: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a ServiceAccount and its right to edit the namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, may_edit(fleet, account)


def may_edit(fleet: Fleet, account: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{account}-edits"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": fleet.namespace}],
    }


def username(fleet: Fleet, account: str) -> str:
    return f"system:serviceaccount:{fleet.namespace}:{account}"


def approval_of(fleet: Fleet, task: str) -> dict[str, Any]:
    """Return the Approval of a task; empty before there is one."""
    found = fleet.get("approvals")["items"]
    return next((each for each in found if each["spec"]["request"]["task"] == task), {})


def opened(fleet: Fleet, task: str) -> str:
    """Wait for the Approval of a task, and return its name."""
    waited = fleet.until(lambda: approval_of(fleet, task), "the approval exists")
    print(f"approval after {waited:.1f} s")
    return str(approval_of(fleet, task)["metadata"]["name"])


def decide(fleet: Fleet, name: str, account: str, decision: str, **fields: str) -> "subprocess.CompletedProcess[str]":
    """Patch an Approval as one of the ServiceAccounts. Args: `fields` are further fields of the spec."""
    where, who = f"--namespace={fleet.namespace}", f"--as={username(fleet, account)}"
    spec = {"decision": decision, "decidedBy": username(fleet, account), **fields}
    document = json.dumps({"spec": spec})
    return fleet.kubectl.attempt("patch", "approval", name, "--type=merge", "-p", document, where, who)
