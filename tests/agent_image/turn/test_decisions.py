"""Decisions about tool calls: the tool, the policy, the caller and earlier grants decide together."""

import pytest
from pydantic import ValidationError

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import person
from fleetwright_agent.protocol.frames import InterruptKind, InterruptReply, InterruptRequest, TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.tools.approval_policy import may_approve
from fleetwright_agent.tools.port import (
    Allow,
    Ask,
    Deny,
    Grant,
    Tool,
    ToolBlocked,
    ToolCall,
    ToolDeclined,
    ToolError,
    allow,
)
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions, CallPermit

GRANT = Grant("rope", "more cuts")
ASK = Ask("Cut it?", "- long", (GRANT,))
QUESTION = Ask("Which rope?", kind=InterruptKind.QUESTION, payload={"question": "Which rope?"})
REPLY = InterruptReply("ask-1", {"approved": True, "grant": "rope"})


@pytest.fixture
async def grants(tmp_path):
    storage = sqlite_storage(tmp_path)
    yield Grants(storage.grants)
    await storage.file.aclose()


@pytest.fixture
def decide(documents, grants):
    """Return a function that decides about a call, as a turn would."""

    async def question(decision, *, owner="client:web", is_waiting_for_approval=False, whole=False, **changes):
        async def decided(_):
            if isinstance(decision, Exception):
                raise decision
            return decision

        async def run(_):
            return "done"

        config = AgentConfig.model_validate(documents(**({"askHuman": True} | changes)))
        request = TurnRequest(owner, "c", "t", "x")
        context = TurnContext(request, lambda _: None, {})
        tool = Tool("rope__cut", "d", {"type": "object"}, run, decided)
        call = ToolCall({"n": 1}, request, lambda _: None)
        permit = await CallDecisions(config, grants).permit(
            tool, call, context, is_waiting_for_approval=is_waiting_for_approval
        )
        return permit if whole else permit.question

    return question


async def test_decision_to_allow_asks_nobody(decide):
    assert await decide(Allow()) is None


async def test_decision_to_ask_is_stored_as_data(decide):
    asked = await decide(ASK)
    assert (asked["kind"], asked["tool"], asked["payload"]["grants"]) == (
        "approval",
        "rope__cut",
        [{"key": "rope", "title": "more cuts"}],
    )


NO_APPROVAL = {"callerRoles": [{"callers": ["*"], "role": "NoApproval"}]}
BY_CALLERS = {"approvals": {"by": "Callers", "tools": ["x"]}}
REFUSED = [
    pytest.param(Deny("it is wet"), {}, ToolBlocked, "it is wet", id="the tool denies"),
    pytest.param(ToolError("no rope"), {}, ToolError, "no rope", id="the tool fails in words"),
    pytest.param(RuntimeError("line 7"), {}, ToolError, "the tool broke", id="the tool breaks"),
    pytest.param(ASK, {"owner": "agent:team/peer"}, ToolDeclined, "comes from an agent", id="an agent"),
    pytest.param(
        ASK, {"owner": "agent:team/echo", **BY_CALLERS}, ToolDeclined, "comes from an agent", id="the agent itself"
    ),
    pytest.param(ASK, {"askHuman": False}, ToolDeclined, "cannot ask a person", id="an agent that may not ask"),
    pytest.param(ASK, NO_APPROVAL, ToolBlocked, "rope__cut needs the action RequestApproval", id="the caller's role"),
    pytest.param(
        ASK,
        {"owner": "agent:team/peer", **NO_APPROVAL, "approvals": {"by": "Reviewers"}},
        ToolBlocked,
        "which the role of this caller does not allow",
        id="the role of an agent, with reviewers",
    ),
    pytest.param(Deny("it is wet"), NO_APPROVAL, ToolBlocked, "it is wet", id="the tool denies whatever the role is"),
]


@pytest.mark.parametrize(("decision", "about", "kind", "says"), REFUSED)
async def test_decision_refuses_a_call(decide, decision, about, kind, says):
    with pytest.raises(kind, match=says):
        await decide(decision, **about)


async def test_agent_that_may_approve_is_offered_no_grant(decide):
    asked = await decide(ASK, owner="agent:team/peer", **BY_CALLERS)
    assert "grants" not in asked["payload"]


def asked_before(*, identity="ask-1", kind=InterruptKind.APPROVAL, offered=("rope",)):
    payload = {"kind": "approval", "grants": [{"key": key, "title": key} for key in offered]}
    return InterruptRequest(kind, "?", payload, identity=identity, tool="rope__cut")


@pytest.mark.parametrize(
    ("owner", "reply", "ask", "covered"),
    [
        pytest.param("client:web", REPLY, asked_before(), True, id="a client replies to the question"),
        pytest.param("agent:team/peer", REPLY, asked_before(), False, id="an agent replies"),
        pytest.param("client:web", None, asked_before(), False, id="no reply"),
        pytest.param("client:web", REPLY, asked_before(identity="ask-2"), False, id="a reply to another question"),
        pytest.param("client:web", REPLY, asked_before(offered=("boat",)), False, id="a grant that was not offered"),
        pytest.param("client:web", REPLY, asked_before(kind=InterruptKind.QUESTION), False, id="not an approval"),
    ],
)
async def test_grant_is_given_only_by_the_reply_of_a_client(grants, decide, owner, reply, ask, covered):
    await grants.accept(TurnRequest(owner, "c", "t", "x", reply=reply), [ask])
    assert (await decide(ASK) is None) is covered


async def test_role_without_approval_ignores_earlier_grants(grants, decide):
    await grants.accept(TurnRequest("client:web", "c", "t", "x", reply=REPLY), [asked_before()])
    with pytest.raises(ToolBlocked, match="RequestApproval"):
        await decide(ASK, **NO_APPROVAL)


async def test_role_without_approval_leaves_an_open_question_open(decide):
    assert await decide(ASK, is_waiting_for_approval=True, **NO_APPROVAL) is not None


async def test_role_without_approval_leaves_questions_alone(decide):
    assert await decide(QUESTION, **NO_APPROVAL) is not None


@pytest.mark.parametrize("action", CallerAction)
def test_tool_is_refused_if_the_role_lacks_its_action(documents, grants, action):
    others = [each for each in CallerAction if each is not action]
    request = TurnRequest("client:web", "c", "t", "x")
    tool, context = Tool("rope", "d", {"type": "object"}, allow, action=action), TurnContext(request, print, {})

    def refusal(tool, allowed):
        config = AgentConfig.model_validate(documents(callerRoles=[{"callers": ["client:web"], "actions": allowed}]))
        return CallDecisions(config, grants).refusal(tool, context)

    assert refusal(tool, [action]) is None
    assert refusal(Tool("rope", "d", {"type": "object"}, allow), []) is None
    assert f"rope needs the action {action}" in str(refusal(tool, others))


@pytest.mark.parametrize(
    ("by", "owner", "role", "may"),
    [
        ("Clients", "client:web", "Unrestricted", True),
        ("Clients", "client:web", "NoApproval", False),
        ("Callers", "agent:team/peer", "Unrestricted", True),
        ("Callers", "agent:team/peer", "NoApproval", False),
        ("Clients", "agent:team/peer", "Unrestricted", False),
        ("Reviewers", "client:web", "Unrestricted", False),
    ],
)
def test_caller_may_approve_if_policy_and_role_allow_it(documents, by, owner, role, may):
    roles = [{"callers": [owner], "role": role}]
    config = AgentConfig.model_validate(documents(approvals={"by": by, "tools": ["x"]}, callerRoles=roles))
    assert may_approve(config, owner) is may


EXEMPT = {"approvals": {"tools": ["x"], "by": "Callers", "bypassCallers": ["client:web", "user:Ada Lovelace"]}}


@pytest.mark.parametrize("owner", ["client:web", person("Ada Lovelace")])
async def test_exempt_caller_needs_no_approval(decide, owner):
    permit = await decide(Ask("Cut it?", "- long", state="s1"), owner=owner, whole=True, **EXEMPT)
    assert permit == CallPermit(None, approved="Cut it?", state="s1", bypassed=True)


@pytest.mark.parametrize(
    ("owner", "decision", "is_waiting_for_approval"),
    [
        pytest.param("client:other", ASK, False, id="another client"),
        pytest.param(person("ada"), ASK, False, id="another person"),
        pytest.param(f"{person('Ada Lovelace')} via agent:team/desk", ASK, False, id="a person through an agent"),
        pytest.param("agent:team/web", ASK, False, id="an agent"),
        pytest.param("client:web", ASK, True, id="an open question"),
        pytest.param("client:web", QUESTION, False, id="a question"),
    ],
)
async def test_caller_that_is_not_exempt_is_asked(decide, owner, decision, is_waiting_for_approval):
    permit = await decide(decision, owner=owner, is_waiting_for_approval=is_waiting_for_approval, whole=True, **EXEMPT)
    assert permit.question is not None
    assert not permit.bypassed


async def test_exemption_has_no_effect_on_denials_and_roles(decide):
    with pytest.raises(ToolBlocked, match="it is wet"):
        await decide(Deny("it is wet"), **EXEMPT)
    with pytest.raises(ToolBlocked, match="RequestApproval"):
        await decide(ASK, **EXEMPT, **NO_APPROVAL)


async def test_call_with_a_grant_is_not_marked_as_bypassed(grants, decide):
    await grants.accept(TurnRequest("client:web", "c", "t", "x", reply=REPLY), [asked_before()])
    assert not (await decide(ASK, whole=True, **EXEMPT)).bypassed


@pytest.mark.parametrize(
    "caller",
    ["agent:team/lead", "user:*", "client:*", "*", "client:web via agent:team/desk", "client:", "user:", "web"],
)
def test_config_refuses_an_exempt_caller_without_an_exact_name(documents, caller):
    with pytest.raises(ValidationError, match=r"bypassCallers\.0"):
        AgentConfig.model_validate(documents(approvals={"bypassCallers": [caller]}))
