"""`spec.fleet.cascade` on a real API server: owner references, garbage collection, and the limits of the operator."""

import itertools
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from tests.support.controlplane.administrator import LONG_SECONDS, OPERATOR_ACCOUNT, POLICY_KINDS
from tests.support.controlplane.gateway import token_of


@pytest.fixture(scope="module", autouse=True)
def policy(admin: Any, rendered_chart: list[dict[str, Any]], kubeconfig: Any) -> None:
    """Install the admission policy of the chart that limits what the operator changes of Agents."""
    for body in rendered_chart:
        if body["kind"] in POLICY_KINDS and body["metadata"]["name"].endswith("-agent-owners"):
            admin.apply(body)


def owners(space: Any, name: str) -> list[str]:
    return [owner["name"] for owner in space.get("Agent", name)["metadata"].get("ownerReferences", ())]


def test_deleting_a_parent_with_cascade_deletes_its_children_only(space, operator):
    space.agent("lead", fleet={"cascade": True})
    for name, parent in (("child", "lead"), ("promoted", "lead"), ("grandchild", "child")):
        space.agent(name, fleet={"parent": {"name": parent}})
    for name in ("child", "promoted"):
        space.eventually(lambda name=name: owners(space, name) == ["lead"], f"{name} has its parent as owner")
    space.agent("promoted")
    space.eventually(lambda: owners(space, "promoted") == [], "the promoted agent has no owner")
    space.admin.delete("Agent", space.name, "lead")
    space.eventually(lambda: space.find("Agent", "child") is None, "the child is gone", promised=LONG_SECONDS)
    assert space.find("Agent", "promoted")
    assert space.find("Agent", "grandchild")


def test_admission_policy_allows_the_operator_to_change_owners_only(control_plane, space, admin, operator, refusal):
    space.agent("poet")
    operators = type(admin)(control_plane.server, token_of(admin, SYSTEM, OPERATOR_ACCOUNT), control_plane.ca)

    attempts = itertools.count()

    def denies() -> bool:
        # A patch that changes nothing would be allowed, so each attempt has another value.
        try:
            operators.merge("Agent", space.name, "poet", {"spec": {"description": f"changed {next(attempts)}"}})
        except refusal:
            return True
        return False

    space.eventually(denies, "the API server has loaded the policy")
    for patch, says in (
        ({"spec": {"suspend": True}}, "not its spec"),
        ({"metadata": {"labels": {"team": "b"}}}, "not its labels"),
        ({"metadata": {"annotations": {"fleetwright.dev/wake": "now"}}}, "not others"),
    ):
        with pytest.raises(refusal, match=says):
            operators.merge("Agent", space.name, "poet", patch)
    operators.merge("Agent", space.name, "poet", {"metadata": {"annotations": {"fleetwright.dev/cascade-parent": "u"}}})
