"""Other people and programs change children. The operator repairs its own fields and leaves all others unchanged."""

import json
import time
from functools import partial
from typing import Any

import pytest
from e2e.cluster.deploy import RELEASE, SYSTEM
from e2e.control_plane.deployments import operator_fields
from e2e.scenarios.fleet import Fleet, agent, children
from tests.support.machine import ceiling

OPERATOR = f"deployment/{RELEASE}-operator"


def test_operator_restores_deleted_and_edited_children(fleet: Fleet) -> None:
    fleet.apply(agent("patient"))
    fleet.ready("agent/patient")
    policies = ("networkpolicy/patient", "networkpolicy/patient-ingress")
    wanted = {name: fleet.get(name) for name in ("service/patient", *policies, "deployment/patient")}

    for name, child in wanted.items():
        replaced = partial(_replaced, fleet, name, child["metadata"]["uid"])
        fleet.run("delete", name, "--wait=false")
        print(f"{name} was back after {fleet.until(replaced, f'{name} is back'):.1f} s")

    port = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
    fleet.run("patch", "service/patient", "--type=json", "-p", json.dumps(port))
    ports = wanted["service/patient"]["spec"]["ports"]
    fleet.until(lambda: fleet.get("service/patient")["spec"]["ports"] == ports, "the port is as declared")
    opened = json.dumps({"spec": {"ingress": [{}]}})
    ingress = wanted["networkpolicy/patient-ingress"]["spec"]["ingress"]
    fleet.run("patch", "networkpolicy/patient-ingress", "--type=merge", "-p", opened)
    healed = partial(_lets_in, fleet, "networkpolicy/patient-ingress", ingress)
    fleet.until(healed, "the policy is as compiled")
    fleet.ready("agent/patient")


def _lets_in(fleet: Fleet, policy: str, rules: list[Any]) -> bool:
    return bool(fleet.get(policy)["spec"]["ingress"] == rules)


def _replaced(fleet: Fleet, name: str, uid: str) -> bool:
    shown = ("get", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
    return fleet.run(*shown) not in {"", uid}


@pytest.mark.alone
def test_reapply_and_operator_restart_change_no_child(fleet: Fleet) -> None:
    manifest = agent("quiet")
    fleet.apply(manifest)
    fleet.ready("agent/quiet")
    fleet.until(lambda: _settled(fleet), "everything is at rest")
    before = _written(fleet)

    fleet.apply(manifest)
    fleet.kubectl.run("rollout", "restart", OPERATOR, f"--namespace={SYSTEM}")
    fleet.kubectl.run("rollout", "status", OPERATOR, f"--namespace={SYSTEM}", f"--timeout={ceiling():.0f}s")
    fleet.until(lambda: _leads(fleet), "the new operator leads")
    time.sleep(5)
    assert _written(fleet) == before


def _settled(fleet: Fleet) -> bool:
    before = _written(fleet)
    time.sleep(3)
    return _written(fleet) == before


def _written(fleet: Fleet) -> dict[str, str]:
    """Return the resource versions of the children, and the fields of the Deployments that no controller writes."""
    found = fleet.get("deployments", "--selector=app.kubernetes.io/managed-by=fleetwright")["items"]
    heads = {item["metadata"]["name"]: operator_fields(item["metadata"]) for item in found}
    return children(fleet) | {f"Deployment/{name}": json.dumps(head, sort_keys=True) for name, head in heads.items()}


def _leads(fleet: Fleet) -> bool:
    pods = fleet.kubectl.get("pods", f"--namespace={SYSTEM}", "--selector=app.kubernetes.io/name=fleetwright-operator")
    names = [pod["metadata"]["name"] for pod in pods["items"] if "deletionTimestamp" not in pod["metadata"]]
    (lease,) = fleet.kubectl.get("leases", f"--namespace={SYSTEM}")["items"]
    return any((lease["spec"].get("holderIdentity") or "").startswith(name) for name in names)


def test_foreign_service_is_a_named_conflict_and_unchanged(fleet: Fleet) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "else"}, "ports": [{"port": 9999}]},
    }
    fleet.apply(foreign)
    before = fleet.get("service/taken")
    fleet.apply(agent("taken"))
    fleet.until(lambda: fleet.condition("agent/taken", "Conflict")[0] == "True", "the conflict is said")
    assert "taken" in fleet.condition("agent/taken", "Conflict")[2]
    assert fleet.condition("agent/taken", "Ready")[0] == "False"
    assert fleet.get("service/taken") == before

    fleet.run("delete", "service/taken")
    fleet.ready("agent/taken")
    assert not fleet.condition("agent/taken", "Conflict")[0]
