"""`list_agents` and `ask_agent`: through a gateway in memory, to a real A2A server behind it."""

import asyncio
from dataclasses import replace

import httpx
import pytest
from a2a.types.a2a_pb2 import Task
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import (
    COOK,
    GATEWAY,
    ME,
    Gateway,
    UnreadableLog,
    build_context,
    open_log_with_delegation,
    serve_cook,
)
from tests.support.waiting import within

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.tools.fleet.background_tasks import MOST
from fleetwright_agent.tools.fleet.colleagues import Colleague, Colleagues, GatewayUnavailable
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.port import ToolCall, ToolError

FAR = {"namespace": "far", "name": "poet", "description": "", "phase": "Asleep"}


def call(**arguments):
    return ToolCall(arguments, TurnRequest("client:a", "c1", "t1", "x"), lambda _: None)


def tools_over(gateway, folder, *, client=None, delegations=None, now=lambda: 0.0, questions=None):
    layout = Layout(root=folder / "desk")
    layout.gateway_token_file.parent.mkdir(parents=True, exist_ok=True)
    layout.gateway_token_file.write_text("own-token\n")
    client = client or httpx.AsyncClient(transport=gateway)
    log = delegations or MemoryTaskLog()
    storage = memory_storage()
    kept = questions or storage.questions
    return FleetTools(ME, GATEWAY, layout, client, kept, storage.delegated, log, now=now, records=call_records())


async def named(fleet):
    return {tool.name: tool for tool in await fleet.tools(build_context())}


async def test_ask_agent_returns_the_answer_through_the_gateway(tmp_path):
    async with serve_cook(tmp_path) as (cook, gateway):
        fleet = tools_over(gateway, tmp_path)
        tool = (await named(fleet))["ask_agent"]
        assert await tool.run(call(agent="cook", message="boil eggs")) == "eggs, boiled"
        assert await tool.run(call(agent="n/cook", message="boil eggs")) == "eggs, boiled"
        await fleet.close()
    assert [(heard.text, heard.call_path) for heard in cook.heard] == [("boil eggs", ("n/desk",))] * 2
    assert set(gateway.tokens) == {"Bearer own-token"}


async def test_ask_agent_reads_the_rotated_token(tmp_path):
    async with serve_cook(tmp_path) as (_, gateway):
        fleet = tools_over(gateway, tmp_path)
        tool = (await named(fleet))["ask_agent"]
        Layout(root=tmp_path / "desk").gateway_token_file.write_text("next-token")
        await tool.run(call(agent="cook", message="boil eggs"))
        await fleet.close()
    assert set(gateway.tokens[1:]) == {"Bearer next-token"}


async def test_ask_agent_sends_the_delegation_of_its_task(tmp_path):
    """The model chooses the agent and the message, but never the task whose delegation is sent."""
    async with serve_cook(tmp_path) as (_, gateway):
        fleet = tools_over(gateway, tmp_path, delegations=await open_log_with_delegation("t1"))
        tool = (await named(fleet))["ask_agent"]
        gateway.delegations.clear()
        gateway.tasks.clear()
        await tool.run(call(agent="cook", message="boil eggs"))
        assert (set(gateway.delegations), set(gateway.tasks)) == ({"delegation-of-t1"}, {"t1"})
        gateway.delegations.clear()
        gateway.tasks.clear()
        other = ToolCall({"agent": "cook", "message": "x"}, TurnRequest("client:b", "c1", "t1", "x"), lambda _: None)
        await tool.run(other)
        assert set(gateway.delegations) == set(gateway.tasks) == {None}
        await fleet.close()


async def test_question_is_given_up_with_the_delegation_of_its_task(tmp_path):
    """The task at the other agent belongs to the principal, so only the delegation can cancel it."""
    async with serve_cook(tmp_path) as (_, gateway):
        kept = memory_storage().questions
        await kept.put(OpenQuestion(QuestionKey("client:a", "c1", "n/cook"), "their-task", "t1"))
        fleet = tools_over(gateway, tmp_path, delegations=await open_log_with_delegation("t1"), questions=kept)
        fleet.over("client:a", "t1")
        await fleet.close()
    assert gateway.delegations
    assert (set(gateway.delegations), set(gateway.tasks)) == ({"delegation-of-t1"}, {"t1"})


async def test_ask_agent_refuses_after_the_deadline_of_its_task(tmp_path):
    gateway = Gateway()
    fleet = tools_over(gateway, tmp_path, delegations=await open_log_with_delegation("t1"), now=lambda: 60.0)
    tool = (await named(fleet))["ask_agent"]
    gateway.tokens.clear()
    with pytest.raises(ToolError, match="this task has run too long to ask other agents for its caller"):
        await tool.run(call(agent="cook", message="x"))
    assert gateway.tokens == []


@pytest.mark.parametrize("owner", ["user:ada", "agent:team/lead via agent:team/cook"])
async def test_ask_agent_for_a_principal_needs_a_delegation(tmp_path, owner):
    gateway, log = Gateway(), MemoryTaskLog()
    await log.accept(Claim(owner, "t1", b""), Task(id="t1", context_id="c1"), at_ns=1)
    tool = (await named(tools_over(gateway, tmp_path, delegations=log)))["ask_agent"]
    gateway.tokens.clear()
    turn = TurnRequest(owner, "c1", "t1", "x")
    with pytest.raises(ToolError, match="the caller may send it again"):
        await tool.run(ToolCall({"agent": "cook", "message": "x"}, turn, lambda _: None))
    assert gateway.tokens == []


async def test_ask_agent_refuses_a_delegation_without_its_token(tmp_path):
    """The log has deleted the expired token, and the clock of the agent has gone back since then."""
    gateway, log = Gateway(), MemoryTaskLog()
    await log.accept(Claim("client:a", "t1", b""), Task(id="t1"), at_ns=1, delegation=Delegation("", 60, "t1"))
    tool = (await named(tools_over(gateway, tmp_path, delegations=log)))["ask_agent"]
    gateway.tokens.clear()
    with pytest.raises(ToolError, match="has run too long"):
        await tool.run(call(agent="cook", message="x"))
    assert gateway.tokens == []


async def test_ask_agent_refuses_while_the_task_is_unreadable(tmp_path):
    """A call for a principal must not silently become a call of the agent itself."""
    tool = (await named(tools_over(Gateway(), tmp_path, delegations=UnreadableLog())))["ask_agent"]
    with pytest.raises(ToolError, match="cannot be read at the moment"):
        await tool.run(call(agent="cook", message="x"))


@pytest.mark.parametrize(
    ("agent", "wanted"),
    [
        pytest.param("desk", "an agent cannot ask itself", id="itself"),
        pytest.param("n/desk", "an agent cannot ask itself", id="itself with the namespace"),
        pytest.param("../admin", "is not the name of an agent", id="a path"),
        pytest.param("a/b/c", "is not the name of an agent", id="too many parts"),
        pytest.param("", "is not the name of an agent", id="nothing"),
        pytest.param("nobody", "it answered 404", id="an agent that it may not see"),
    ],
)
async def test_ask_agent_refuses_what_it_cannot_ask(tmp_path, agent, wanted):
    gateway = Gateway()
    tool = (await named(tools_over(gateway, tmp_path)))["ask_agent"]
    with pytest.raises(ToolError, match=wanted):
        await tool.run(call(agent=agent, message="x"))


async def test_ask_agent_without_a_token_is_a_tool_error(tmp_path):
    fleet = tools_over(Gateway(), tmp_path)
    tool = (await named(fleet))["ask_agent"]
    Layout(root=tmp_path / "desk").gateway_token_file.unlink()
    with pytest.raises(ToolError, match="holds no credential for the gateway"):
        await tool.run(call(agent="cook", message="x"))


async def test_only_ask_agent_needs_the_action_delegate(tmp_path):
    tools = await named(tools_over(Gateway(), tmp_path))
    assert {name: tool.action for name, tool in tools.items()} == {
        "ask_agent": CallerAction.DELEGATE,
        "list_agents": None,
    }


async def test_list_agents_names_each_colleague(tmp_path):
    gateway = Gateway()
    gateway.peers = {"items": [COOK, FAR]}
    tools = await named(tools_over(gateway, tmp_path))
    assert await tools["list_agents"].run(call()) == "- cook: cooks\n- far/poet: an agent of this fleet"
    assert "- cook: cooks" in tools["ask_agent"].description


async def test_list_agents_shows_how_tasks_ended(tmp_path):
    gateway = Gateway()
    outcomes = [{"skill": "", "tasks": 3, "succeeded": 2}, {"skill": "soup", "tasks": 1, "succeeded": 1}]
    gateway.peers = {"items": [{**COOK, "outcomes": outcomes}]}
    tools = await named(tools_over(gateway, tmp_path))
    assert await tools["list_agents"].run(call()) == "- cook: cooks (3 of its last 4 tasks succeeded)"
    assert "succeeded" not in tools["ask_agent"].description


async def test_list_agents_of_an_agent_without_colleagues(tmp_path):
    gateway = Gateway()
    gateway.peers = {"items": []}
    tools = await named(tools_over(gateway, tmp_path))
    assert await tools["list_agents"].run(call()) == "There are no other agents to ask."


async def test_tools_remain_while_the_gateway_is_away(tmp_path):
    gateway = Gateway()
    gateway.status = 503
    turn = build_context()
    found = {tool.name: tool for tool in await tools_over(gateway, tmp_path).tools(turn)}
    assert set(found) == {"ask_agent", "list_agents"}
    assert "gateway" in turn.unreachable
    with pytest.raises(ToolError, match="cannot be listed right now: the gateway answered 503"):
        await found["list_agents"].run(call())


async def test_colleagues_are_read_again_after_a_short_time():
    """A new colleague appears without a new revision, and a former list is used while the gateway is away."""
    gateway, moment = Gateway(), 0.0
    client = httpx.AsyncClient(transport=gateway)
    colleagues = Colleagues(ME, GATEWAY, client, read_token=lambda: "t", monotonic=lambda: moment)
    cook, poet = Colleague("n", "cook", "cooks", "Running"), Colleague("far", "poet", "", "Asleep")
    assert await colleagues.list() == (cook,)
    gateway.peers = {"items": [COOK, FAR]}
    moment = 14.0
    assert await colleagues.list() == (cook,)
    assert gateway.lists == 1
    moment = 16.0
    assert await colleagues.list() == (cook, poet)
    gateway.status, moment = 500, 40.0
    assert await colleagues.list() == (cook, poet)
    asked, moment = gateway.lists, 50.0
    assert await colleagues.list() == (cook, poet)
    assert gateway.lists == asked, "a gateway that does not answer is asked only now and then"
    moment = 315.9  # The list was read at 16, and is used until it is five minutes old.
    assert await colleagues.list() == (cook, poet)
    moment = 316.0
    with pytest.raises(GatewayUnavailable, match="the gateway answered 500"):
        await colleagues.list()


@pytest.mark.parametrize("body", [[], {"items": 3}, {"items": [{"name": "x"}]}, {"items": ["x"]}, "text"])
async def test_colleagues_refuse_a_body_that_is_no_list(body):
    gateway = Gateway()
    gateway.peers = body
    colleagues = Colleagues(ME, GATEWAY, httpx.AsyncClient(transport=gateway), read_token=lambda: "t")
    with pytest.raises(GatewayUnavailable):
        await colleagues.list()


async def begun(fleet, key="1"):
    ask = (await named(fleet))["ask_agent"]
    text = await ask.run(replace(call(agent="cook", message="Boil eggs", wait=False), key=key))
    assert "Do not do this work yourself" in text
    return text.split("task ")[1].split(".")[0]


TURN = TurnRequest("client:a", "c1", "t2", "x")


async def settled(fleet):
    """Wait until the task of the agent is done, and return the results."""
    async with within("the background task is finished"):
        while not (found := await fleet.background.finished(TURN)):  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)
    return found


async def test_ask_agent_without_waiting_returns_a_task(tmp_path):
    async with serve_cook(tmp_path) as (cook, gateway):
        fleet = tools_over(gateway, tmp_path)
        task_id = await begun(fleet)
        (result,) = await settled(fleet)
        assert (result.text, result.ok, result.task.task_id) == ("eggs, boiled", True, task_id)
        assert await fleet.background.finished(TurnRequest("client:b", "c1", "t2", "x")) == []
        assert await fleet.background.finished(TurnRequest("client:a", "c2", "t2", "x")) == []
        await fleet.background.delivered([result.task])
        assert await fleet.background.finished(TURN) == []
        assert len(cook.heard) == 1


async def test_background_result_waits_for_an_unreachable_gateway(tmp_path):
    async with serve_cook(tmp_path) as (_, gateway):
        fleet = tools_over(gateway, tmp_path)
        await begun(fleet)
        agent, gateway.agent = gateway.agent, Down()
        assert await fleet.background.finished(TURN) == []
        gateway.agent = agent
        (result,) = await settled(fleet)
        assert result.ok


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_background_result_of_a_lost_agent_is_an_error(tmp_path, status):
    async with serve_cook(tmp_path) as (_, gateway):
        fleet = tools_over(gateway, tmp_path)
        await begun(fleet)
        gateway.agent = httpx.MockTransport(lambda _: httpx.Response(status))
        (result,) = await fleet.background.finished(TURN)
    assert (result.ok, result.text) == (False, "cook can no longer be asked")


async def test_background_result_of_a_forgotten_task_is_an_error(tmp_path):
    async with serve_cook(tmp_path / "one") as (_, gateway):
        fleet = tools_over(gateway, tmp_path)
        await begun(fleet)
    async with serve_cook(tmp_path / "two") as (_, other):
        gateway.agent = other.agent
        (result,) = await fleet.background.finished(TURN)
    assert (result.ok, result.text) == (False, "cook no longer knows this task")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({"agent": "cook", "task_id": "t"}, "begins a new task", id="the answer to a question"),
        pytest.param({"agent": "desk"}, "cannot ask itself", id="itself"),
        pytest.param({"agent": "Nobody!"}, "is not the name of an agent", id="no name"),
        pytest.param({"agent": "poet"}, "poet could not be asked", id="an agent that is not there"),
    ],
)
async def test_ask_agent_without_waiting_refuses(tmp_path, arguments, problem):
    async with serve_cook(tmp_path) as (cook, gateway):
        ask = (await named(tools_over(gateway, tmp_path)))["ask_agent"]
        with pytest.raises(ToolError, match=problem):
            await ask.run(call(message="Boil eggs", wait=False, **arguments))
        assert cook.heard == []


async def test_ask_agent_repeated_with_the_same_key_begins_one_task(tmp_path):
    async with serve_cook(tmp_path) as (cook, gateway):
        fleet = tools_over(gateway, tmp_path)
        first, again, other = await begun(fleet), await begun(fleet), await begun(fleet, "2")
        assert first == again != other
        assert [result.task.task_id for result in await settled(fleet)][:1] == [first]
        assert len(cook.heard) == 2


@pytest.mark.parametrize(("arguments", "once"), [({}, False), ({"wait": True}, False), ({"wait": False}, True)])
async def test_ask_agent_is_repeated_only_without_waiting(tmp_path, arguments, once):
    async with serve_cook(tmp_path) as (_, gateway):
        ask = (await named(tools_over(gateway, tmp_path)))["ask_agent"]
    assert (ask.repeatable, ask.happens_once(arguments)) == (False, once)


async def test_background_tasks_of_a_conversation_are_limited(tmp_path):
    async with serve_cook(tmp_path) as (cook, gateway):
        fleet = tools_over(gateway, tmp_path)
        for number in range(MOST):
            await begun(fleet, str(number))
        ask = (await named(fleet))["ask_agent"]
        with pytest.raises(ToolError, match="which is the maximum"):
            await ask.run(call(agent="cook", message="Boil eggs", wait=False))
        assert len(await settled(fleet)) <= MOST
        assert len(cook.heard) <= MOST


class Down(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("down", request=request)


def agents(*numbers):
    return [{**COOK, "name": f"cook-{number}"} for number in numbers]


async def test_list_of_colleagues_is_read_page_by_page(tmp_path):
    """A page is smaller than the limit of a response. The rest of a list of more than 200 agents is not read."""
    gateway = Gateway()
    gateway.peers = {"items": agents(*range(100)), "nextPageToken": "p1"}
    gateway.pages = {
        "p1": {"items": agents(*range(100, 200)), "nextPageToken": "p2"},
        "p2": {"items": agents(200)},
    }
    async with httpx.AsyncClient(transport=gateway) as client:
        colleagues = Colleagues(ME, GATEWAY, client, read_token=lambda: "token")
        found = await colleagues.list()
    assert [each.name for each in found] == [f"cook-{number}" for number in range(200)]
    assert gateway.lists == 2
