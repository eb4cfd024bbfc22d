"""Decisions about tool calls: the tool, the policy, the caller and earlier grants decide together."""

import pytest

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.protocol.frames import InterruptKind, InterruptReply, InterruptRequest, TurnRequest
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.tools.port import Allow, Ask, Deny, Grant, Tool, ToolBlocked, ToolCall, ToolDeclined, ToolError
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions

GRANT = Grant("rope", "more cuts")
ASK = Ask("Cut it?", "- long", (GRANT,))
REPLY = InterruptReply("ask-1", {"approved": True, "grant": "rope"})


@pytest.fixture
async def grants(tmp_path):
    storage = sqlite_storage(tmp_path)
    yield Grants(storage.grants)
    await storage.file.aclose()


@pytest.fixture
def decide(documents, grants):
    """Return a function that decides about a call, as a turn would."""

    async def question(decision, *, owner="client:web", **changes):
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
        return (await CallDecisions(config, grants).permit(tool, call, context)).question

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
