"""The roles of callers: which entry matches a caller, and which actions it allows."""

import pytest
from pydantic import ValidationError

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import person
from fleetwright_agent.security.caller_roles import EVERY_ACTION, ROLES, CallerAction, Role, compile_patterns

READ, WRITE, DELEGATE = CallerAction.READ_MEMORY, CallerAction.WRITE_MEMORY, CallerAction.DELEGATE
ENTRIES = [
    {"callers": ["client:dashboard", "user:Ada Lovelace", "user:eve*"], "role": "ReadOnly"},
    {"callers": ["agent:research/*"], "actions": ["ReadMemory", "Delegate"]},
    {"callers": ["client:mute"], "actions": []},
    {"callers": ["user:*"], "role": "NoApproval"},
]


@pytest.mark.parametrize(
    ("role", "missing"),
    [
        (Role.UNRESTRICTED, set()),
        (Role.READ_ONLY, EVERY_ACTION - {READ}),
        (Role.MEMORY_READ_ONLY, {WRITE}),
        (Role.NO_MEMORY, {READ, WRITE}),
        (Role.NO_DELEGATION, {DELEGATE}),
        (Role.NO_APPROVAL, {CallerAction.REQUEST_APPROVAL}),
    ],
)
def test_role_lacks_actions(role, missing):
    assert EVERY_ACTION - ROLES[role] == missing


@pytest.mark.parametrize(
    ("pattern", "participant", "wanted"),
    [
        ("*", "client:x", True),
        ("user:*", "user:ada", True),
        ("user:*", "client:user", False),
        ("agent:research/*", "agent:research/scout", True),
        ("agent:research/*", "agent:research-2/scout", False),
        ("client:web", "client:web", True),
        ("client:web", "client:web2", False),
        ("client:web", "client:we", False),
    ],
)
def test_pattern_matches_a_caller(pattern, participant, wanted):
    assert compile_patterns(["agent:other/x", pattern]).match(participant) is wanted


@pytest.mark.parametrize(
    ("owner", "allowed"),
    [
        pytest.param("client:dashboard", {READ}, id="a role"),
        pytest.param("client:shop", EVERY_ACTION, id="a caller without an entry"),
        pytest.param("client:mute", set(), id="an empty list of actions"),
        pytest.param("agent:research/scout", {READ, DELEGATE}, id="the agents of a namespace"),
        pytest.param(person("Ada Lovelace"), {READ}, id="a person whose name is encoded"),
        pytest.param(person("eve@example.com"), {READ}, id="the first of two entries"),
        pytest.param(person("bob"), ROLES[Role.NO_APPROVAL], id="a person"),
        pytest.param(person("x via agent:other/a"), ROLES[Role.NO_APPROVAL], id="a name that looks like a chain"),
        pytest.param(f"{person('Ada Lovelace')} via agent:research/scout", {READ}, id="both have an entry"),
        pytest.param(f"{person('bob')} via agent:research/scout", {READ, DELEGATE}, id="the agent's entry is smaller"),
        pytest.param(f"{person('Ada Lovelace')} via agent:shop/desk", {READ}, id="only the person has an entry"),
        pytest.param("agent:shop/desk via agent:research/scout", {READ, DELEGATE}, id="only the agent has an entry"),
        pytest.param("agent:shop/desk via agent:shop/till", EVERY_ACTION, id="neither has an entry"),
    ],
)
def test_actions_of_an_owner(documents, owner, allowed):
    config = AgentConfig.model_validate(documents(callerRoles=ENTRIES))
    assert config.actions_of(owner) == allowed


def test_last_entry_for_everybody_leaves_no_caller_out(documents):
    config = AgentConfig.model_validate(documents(callerRoles=[*ENTRIES, {"callers": ["*"], "role": "ReadOnly"}]))
    assert config.actions_of("client:shop") == {READ}
    assert config.actions_of("client:dashboard via agent:shop/till") == {READ}


def test_agent_without_roles_allows_every_action(documents):
    assert AgentConfig.model_validate(documents()).actions_of("client:x via agent:a/b") == EVERY_ACTION


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        pytest.param({"callers": ["*"]}, "exactly one of role and actions", id="neither role nor actions"),
        pytest.param({"callers": ["*"], "role": "Unrestricted", "actions": []}, "exactly one", id="role and actions"),
        pytest.param({"callers": [], "role": "Unrestricted"}, "at least 1 item", id="no caller"),
        pytest.param({"callers": ["ada"], "role": "Unrestricted"}, "should match pattern", id="a name without a kind"),
        pytest.param({"callers": ["user:*a"], "role": "Unrestricted"}, "should match pattern", id="a leading wildcard"),
        pytest.param({"callers": ["user:a**"], "role": "Unrestricted"}, "should match pattern", id="two wildcards"),
        pytest.param({"callers": ["*"], "role": "Boss"}, "Input should be", id="an unknown role"),
        pytest.param({"callers": ["*"], "actions": ["Fly"]}, "Input should be", id="an unknown action"),
    ],
)
def test_config_refuses_a_bad_entry(documents, entry, says):
    with pytest.raises(ValidationError, match=says):
        AgentConfig.model_validate(documents(callerRoles=[entry]))
