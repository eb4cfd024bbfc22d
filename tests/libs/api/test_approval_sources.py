"""The agents that may ask for approvals, and the usernames of their ServiceAccounts."""

import pytest

from fleetwright_api.approval_sources import account_of, may_request_approval
from fleetwright_api.spec.agent import parse_agent


def agent(**spec):
    return parse_agent({"metadata": {"name": "clerk", "namespace": "shop"}, "spec": {"model": {"name": "m"}, **spec}})


SERVER = {"name": "orders"}
APPROVED = {**SERVER, "tools": {"requireApproval": ["refund"]}}


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"askHuman": True}, False, id="questions need no approval"),
        pytest.param({"mcpServers": [SERVER]}, False, id="a server"),
        pytest.param({"approvals": {"by": "Reviewers"}}, False, id="no tool to approve"),
        pytest.param({"approvals": {"tools": ["load_skill"]}}, True, id="a tool"),
        pytest.param(
            {"mcpServers": [{**SERVER, "tools": {"requireApproval": ["refund"]}}]}, True, id="a server's tool"
        ),
        pytest.param({"plugins": [{"name": "units"}]}, True, id="a plugin"),
        pytest.param({"image": "registry.example.com/agent:1"}, True, id="an image"),
        pytest.param({"executor": {"name": "dice:Dice"}}, True, id="an executor"),
        pytest.param({"mcpServers": [SERVER], "enforcement": {"deny": ["orders__x"]}}, True, id="a guarded server"),
        pytest.param({"mcpServers": [SERVER], "enforcement": {"deny": ["load_skill"]}}, False, id="another rule"),
    ],
)
def test_may_request_approval_follows_the_spec(spec, may):
    assert may_request_approval(agent(**spec).spec) is may


def test_account_of_an_agent_is_its_own_or_the_named_one():
    assert account_of(agent()) == "system:serviceaccount:shop:clerk"
    assert account_of(agent(serviceAccountName="robot")) == "system:serviceaccount:shop:robot"
