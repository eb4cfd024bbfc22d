"""An agent that begins tasks by itself: once despite kills, approved by others, and with data like a caller."""

import asyncio

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.agent.operator_client import TOKEN, Operator, operator_document
from tests.support.waiting import within

from fleetwright_a2a.extensions import TOOL_CALL

OWN = "agent:team/echo"
ADMIN = {"administrators": ["default"]}


@pytest.fixture(autouse=True)
def known(mounted, callers):
    """Let the tests read the agent's own tasks, with the agent's own credential."""
    tokens = {"client:default": "token-of-default", OWN: "self"}
    mounted.write(mounted.layout.callers_file, callers(tokens))
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN))


async def own_tasks(guest):
    return (await guest.by(OWN).call("ListTasks", {"includeArtifacts": True}))["result"]["tasks"]


async def only_task(guest, states, *wanted):
    """Wait until the agent has one task of its own that is in one of these states, and return it."""
    tasks = []
    async with within(f"the own task is {' or '.join(wanted)}", shown=lambda: [task["status"] for task in tasks]):
        while True:
            tasks = await own_tasks(guest)
            if tasks and states(tasks[0]) in wanted:
                (task,) = tasks
                return task
            await asyncio.sleep(0.02)


async def ready(guest, states):
    """The process is ready. The prompt may be accepted at this moment."""


async def accepted(guest, states):
    await only_task(guest, states, "submitted", "working")


async def tool_called(guest, states):
    async with within("the own task reports the call"):
        while True:
            task = await only_task(guest, states, "submitted", "working")
            call = task["status"].get("message", {}).get("metadata", {}).get(TOOL_CALL, {})
            if call.get("phase") == "completed":
                return
            await asyncio.sleep(0.02)


@pytest.mark.starts_first
@pytest.mark.parametrize(
    ("moment", "tool_results"),
    [
        pytest.param(ready, 0, id="ready"),
        pytest.param(accepted, 0, id="accepted"),
        pytest.param(tool_called, 1, id="tool called"),
    ],
)
async def test_initial_prompt_runs_once_despite_kills(agent_process, states, house, serve, moment, tool_results):
    """No call of a tool runs at the moment of the first kill. Its task would fail, because the outcome is unknown."""
    with serve_held_model(serve, tool_results=tool_results) as (model, settings):
        settings |= {"initialPrompt": "Book table for 4"}
        async with agent_process(**settings) as guest:
            await moment(guest, states)
            await guest.kill()
        model.released.set()
        async with agent_process(**settings) as guest:
            first = await only_task(guest, states, "completed")
            await guest.kill()
        async with agent_process(**settings | {"initialPrompt": "Book table for 5"}) as guest:
            # A later message is answered after the first check of the prompts.
            assert states(await guest.say("Book table for 6")) == "completed"
            (task,) = await own_tasks(guest)
    assert task["id"] == first["id"]
    assert house.ledger == ["table for 4", "table for 6"]


async def test_own_tasks_have_an_owner_for_administrators(agent, states, house):
    async with agent(initialPrompt="Book table for 4", **ADMIN) as admin:
        task = await only_task(admin, states, "completed")
        assert task["contextId"] == "initial-prompt"
        async with admin.http() as http:
            costs = (await http.get("/admin/costs", params={"since": "2026-01-01"})).json()["costs"]
            assert {row["caller"] for row in costs} == {OWN}
            export = await http.get("/admin/memory", params={"owner": OWN})
            assert (export.status_code, "A table for 4 is booked." in export.text) == (200, True)
            erased = await http.delete("/admin/memory", params={"owner": OWN})
            assert erased.status_code == 200
        assert await own_tasks(admin) == []
    async with agent(initialPrompt="Book table for 4", **ADMIN) as admin:
        assert states(await admin.say("Book table for 6")) == "completed"
        assert await own_tasks(admin) == []
    assert house.ledger == ["table for 4", "table for 6"]


async def test_agent_does_not_approve_its_own_task(agent, states, house, message):
    policy = {"tools": ["house__charge_card"], "by": "Reviewers"}
    async with agent(initialPrompt="Charge the card 30", approvals=policy) as guest:
        task = await only_task(guest, states, "input-required")
        refused = await guest.by(OWN).call("SendMessage", message("yes", taskId=task["id"]))
        assert "may not approve or decline" in refused["error"]["message"]
        (approval,) = await Operator(guest.url).open()
        assert (approval["requestedBy"], approval["task"]) == (OWN, task["id"])
        await Operator(guest.url).decide(approval)
        assert states(await guest.by(OWN).rested(task)) == "completed"
    assert house.ledger == ["charged 30"]


async def test_own_task_that_nobody_may_approve_does_not_wait(agent, states, house):
    policy = {"tools": ["house__charge_card"], "by": "Callers"}
    async with agent(initialPrompt="Charge the card 30", approvals=policy) as guest:
        await only_task(guest, states, "completed")
    assert house.ledger == []
