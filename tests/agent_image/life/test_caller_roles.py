"""Callers with different roles at one agent, over A2A: what is forbidden has no effect and is in the audit trail."""

import json
from typing import Any

import pytest
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from tests.support.agent.operator_client import TOKEN, Operator, operator_document
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.agent.scripted_model import EDIT, READ, ScriptedModel

from fleetwright_a2a.extensions import WORKSPACE_UNDO

READ_ONLY = {"callerRoles": [{"callers": ["client:other", "agent:*"], "role": "ReadOnly"}]}
NO_APPROVAL = {"callerRoles": [{"callers": ["client:other"], "role": "NoApproval"}]}
GATED = {"approvals": {"tools": ["house__charge_card"]}}


async def test_role_blocks_write_tools_of_one_of_two_clients(agent, mounted, house):
    async with agent(**READ_ONLY) as guest:
        refused = await guest.by("client:other").say("Charge card 70")
        assert "house__charge_card needs the action UseWriteTools" in read_answer(refused)
        assert "charged 30" in read_answer(await guest.say("Charge card 30"))
        assert await guest.metric('tool_calls_total{outcome="blocked",tool="house__charge_card"}') == 1
        assert await guest.metric('tool_calls_total{outcome="ok",tool="house__charge_card"}') == 1
    assert house.ledger == ["charged 30"]
    blocked, charged = read_audit_lines(mounted)
    assert (blocked["owner"], blocked["outcome"], blocked["task_id"]) == ("client:other", "blocked", refused["id"])
    assert "UseWriteTools, which the role of this caller does not allow" in blocked["result_summary"]
    assert (charged["owner"], charged["outcome"]) == ("client:default", "ok")


def kitchen(ledger: list[str]) -> FastMCP:
    server = FastMCP("kitchen", host="127.0.0.1", port=1, stateless_http=True, json_response=True)

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def show_menu(day: int) -> str:
        """Show the menu of a day."""
        ledger.append(f"menu {day}")
        return f"The menu of day {day} is soup."

    @server.tool(annotations=ToolAnnotations(readOnlyHint=False))
    def change_menu(day: int) -> str:
        """Change the menu of a day."""
        ledger.append(f"changed {day}")
        return f"The menu of day {day} has changed."

    return server


async def test_role_allows_tools_that_a_server_declares_read_only(agent, serve):
    ledger: list[str] = []
    with serve(kitchen(ledger).streamable_http_app()) as port:
        async with agent(server={"url": f"http://127.0.0.1:{port}/mcp"}, **READ_ONLY) as guest:
            reader = guest.by("client:other")
            assert "The menu of day 3 is soup." in read_answer(await reader.say("Show menu 3"))
            assert "house__change_menu needs the action UseWriteTools" in read_answer(await reader.say("Change menu 4"))
    assert ledger == ["menu 3"]


async def test_role_holds_for_the_calls_of_sub_agents(agent, house):
    about = {"description": "Charges cards.", "instructions": "Charge.", "tools": ["house__charge_card"]}
    order = "Give a task to the sub-agent clerk: "
    async with agent(subAgents=[{"name": "clerk", **about}], **READ_ONLY) as guest:
        refused = await guest.by("client:other").say(f'{order}"Charge card 70"')
        assert "UseWriteTools" in json.dumps(refused)
        await guest.say(f'{order}"Charge card 30"')
    assert house.ledger == ["charged 30"]


async def test_role_without_approval_blocks_instead_of_waiting(agent, states, house):
    async with agent(**GATED, **NO_APPROVAL) as guest:
        refused = await guest.by("client:other").say("Charge the card 70")
        assert states(refused) == "completed"
        assert "house__charge_card needs the action RequestApproval" in read_answer(refused)
        waits = await guest.say("Charge the card 30")
        assert states(waits) == "input-required"
        assert states(await guest.say("yes", taskId=waits["id"])) == "completed"
    assert house.ledger == ["charged 30"]


async def test_role_leaves_an_open_approval_to_reviewers(agent, states, mounted, house):
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN))
    async with agent(**GATED) as guest:
        task = await guest.by("client:other").say("Charge the card 70")
        assert states(task) == "input-required"
    async with agent(**GATED, **NO_APPROVAL) as guest:
        caller = guest.by("client:other")
        part = {"taskId": task["id"], "messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "yes"}]}
        refused = await caller.call("SendMessage", {"message": part})
        assert "This caller may not approve or decline the tool call" in refused["error"]["message"]
        assert states(await caller.get(task)) == "input-required"
        assert house.ledger == []
        operator = Operator(guest.url)
        (approval,) = await operator.open()
        assert (await operator.decide(approval)).status_code == 200
        assert states(await caller.rested(task)) == "completed"
    assert house.ledger == ["charged 70"]


@pytest.mark.parametrize(
    ("role", "asked"), [pytest.param("Unrestricted", 1, id="allowed"), pytest.param("NoDelegation", 0, id="forbidden")]
)
async def test_role_decides_about_calls_of_peers(agent, peer, mounted, role, asked):
    token = mounted.layout.peer_token_file("team", "cook")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("self")
    roles = {"callerRoles": [{"callers": ["client:default"], "role": role}]}
    async with peer() as cook:
        peers = [{"name": "cook", "namespace": "team", "url": cook.url}]
        async with agent(peers=peers, **roles) as guest:
            task = await guest.say("Ask the cook to boil 3 eggs")
        assert await cook.metric("llm_calls_total") == asked
    assert ("ask_cook needs the action Delegate" in read_answer(task)) is not bool(asked)


KNOWING = {"memory": {"knowledge": {"enabled": True, "ingest": ["house__charge_card"]}}}
FACT = 'Always remember the fact "The boat is blue"'


def memory_role(role: str) -> dict[str, Any]:
    return {"callerRoles": [{"callers": ["client:default"], **({"role": role} if role else {"actions": []})}]}


def prompts(recorder: Any, text: str) -> bool:
    """Return True if the newest prompt contains the text."""
    return text in json.dumps(recorder.newest)


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [
        ("Unrestricted", True, True),
        ("MemoryReadOnly", True, False),
        ("ReadOnly", True, False),
        ("NoMemory", False, False),
        ("", False, False),
    ],
)
async def test_role_decides_about_memory_of_earlier_conversations(agent, model, role, reads, writes):
    recorder, document = model
    async with agent(model=document, **KNOWING) as guest:
        await guest.say(FACT, contextId="c1")
    async with agent(model=document, **KNOWING, **memory_role(role)) as guest:
        await guest.say("How is the boat?", contextId="c2")
        assert prompts(recorder, "remembered_facts") is reads
        assert prompts(recorder, "prior_sessions") is reads
        found = read_answer(await guest.say('Recall memory "boat"', contextId="c3"))
        assert ("recall_memory needs the action ReadMemory" in found) is not reads
        forgets = read_answer(await guest.say("Forget remembered fact 1", contextId="c4"))
        assert ("forget needs the action WriteMemory" in forgets) is not writes
        assert ("is forgotten" in forgets) is writes


async def test_role_without_write_memory_leaves_nothing_behind(agent, model, house):
    recorder, document = model
    async with agent(model=document, **KNOWING, **memory_role("MemoryReadOnly")) as guest:
        refused = read_answer(await guest.say(FACT, contextId="c1"))
        assert "remember needs the action WriteMemory" in refused
        await guest.say("Charge card 417", contextId="c2")
        await guest.say("How was 417 settled?", contextId="c3")
        assert not prompts(recorder, "remembered_facts")
        assert not prompts(recorder, "prior_sessions")
    assert house.ledger == ["charged 417"]


async def test_messages_of_a_caller_without_memory_do_not_know_of_each_other(agent, model, house):
    """The account of a pipeline sends many messages, and each prompt is as long as the first one."""
    recorder, document = model
    async with agent(model=document, **KNOWING, **memory_role("NoMemory")) as guest:
        lengths = []
        for number in range(5):
            await guest.say(f"Summarise report {number}", contextId=f"c{number}")
            lengths.append(len(json.dumps(recorder.newest)))
        assert len(set(lengths)) == 1
        await guest.say("Charge card 417", contextId="c9")
    assert house.ledger == ["charged 417"]


async def test_role_hides_earlier_sessions_from_an_older_conversation(agent, model):
    recorder, document = model
    async with agent(model=document) as guest:
        await guest.say("The boat is blue", contextId="c1")
        await guest.say("Hello", contextId="c2")
        assert prompts(recorder, "prior_sessions")
    async with agent(model=document, **memory_role("")) as guest:
        await guest.say("Hello again", contextId="c2")
        assert not prompts(recorder, "prior_sessions")


async def test_prompt_of_a_restricted_caller_has_one_more_paragraph(agent, model):
    recorder, document = model
    async with agent(model=document, **READ_ONLY) as guest:
        systems, tools = [], []
        for caller in (guest, guest.by("client:other")):
            await caller.say("Hello")
            systems.append(recorder.newest[0]["content"])
            tools.append(recorder.asked[-1]["tools"])
    plain, restricted = systems
    assert restricted.startswith(f"{plain}\n\n# Caller\nFor this caller you may not: ")
    assert tools[0] == tools[1], "one list of tools keeps the provider's prompt cache shared"


@pytest.mark.parametrize("mode", ["BestEffort", "Required"])
async def test_exempt_client_charges_without_approval(agent, states, mounted, house, mode):
    exempt = {
        "approvals": {"tools": ["house__charge_card"], "bypassCallers": ["client:other"]},
        "audit": {"mode": mode},
    }
    async with agent(**exempt) as guest:
        waits = await guest.say("Charge the card 30")
        assert states(waits) == "input-required"
        assert states(await guest.by("client:other").say("Charge the card 70")) == "completed"
        question = await guest.by("client:other").say("Ask the human about dessert")
        assert states(question) == "input-required"
        assert states(await guest.say("yes", taskId=waits["id"])) == "completed"
    assert house.ledger == ["charged 70", "charged 30"]
    charged = [line for line in read_audit_lines(mounted) if line["tool"] == "house__charge_card"]
    marks = [(line["owner"], line.get("approval_bypassed_for")) for line in charged if line["event"] == "tool_call"]
    assert marks == [("client:other", "client:other"), ("client:default", None)]
    if mode == "Required":
        begins = [line for line in charged if line["event"] == "tool_call_begins"]
        assert [line.get("approval_bypassed_for") for line in begins] == ["client:other", None]


RUN = ("bash", {"command": "echo done > made.txt"})
DESTROY = ("bash", {"command": "sudo rm -rf /"})


async def test_exempt_client_changes_the_workspace_without_approval(agent, states, coding, workspace, mounted):
    model = ScriptedModel([READ], [EDIT], [RUN], [DESTROY], "Done.")
    with coding(model, approvals={"bypassCallers": ["client:default"]}) as config:
        async with agent(**config) as guest:
            assert states(await guest.say("Fix it")) == "completed"
    assert (workspace.root / "app.py").read_text() == "one\n2\n"
    assert (workspace.root / "made.txt").read_text() == "done\n"
    assert "this command never runs" in model.results()[-1]
    marks = [(line["tool"], line["outcome"], line.get("approval_bypassed_for")) for line in read_audit_lines(mounted)]
    assert marks == [
        ("read_file", "ok", None),
        ("edit_file", "ok", "client:default"),
        ("bash", "ok", "client:default"),
        ("bash", "blocked", None),
    ]


async def test_role_without_write_tools_leaves_the_workspace_alone(agent, states, coding, workspace, mounted):
    model = ScriptedModel([READ], [EDIT], "Fixed.", [READ], [EDIT], [RUN], "It is forbidden.")
    exempt = {"approvals": {"bypassCallers": ["client:default"]}}
    with coding(model, **exempt) as config:
        async with agent(**config) as guest:
            fixed = await guest.say("Fix it")
        async with agent(**config, **memory_role("ReadOnly")) as guest:
            place = {"contextId": fixed["contextId"]}
            undone = await guest.say("/undo", **place, metadata={WORKSPACE_UNDO: {"taskId": fixed["id"]}})
            assert states(undone) == "failed"
            assert "an undo needs the action UseWriteTools" in json.dumps(undone)
            assert states(await guest.say("Fix more", **place)) == "completed"
    assert (workspace.root / "app.py").read_text() == "one\n2\n"
    assert not (workspace.root / "made.txt").exists()
    blocked = [line["tool"] for line in read_audit_lines(mounted) if line["outcome"] == "blocked"]
    assert blocked == ["workspace_undo", "edit_file", "bash"]
