"""Titles that callers give to their conversations, over A2A."""

import json
from typing import Any

import pytest
from tests.support.agent.scripted_model import ScriptedModel

from fleetwright_a2a.extensions import CONTEXT_TITLE

CONTEXT = {"extensions": {"context": True}}


def titled(title: str) -> dict[str, Any]:
    return {"metadata": {CONTEXT_TITLE: {"title": title}}}


async def listed(guest: Any, **parameters: Any) -> dict[str, set[str]]:
    """Return the titles in the listed tasks, by conversation."""
    found: dict[str, set[str]] = {}
    for task in (await guest.call("ListTasks", parameters))["result"]["tasks"]:
        title = task.get("metadata", {}).get(CONTEXT_TITLE, {}).get("title", "")
        found.setdefault(task["contextId"], set()).add(title)
    return found


async def test_title_is_listed_with_the_tasks_of_its_conversation(agent: Any, states: Any) -> None:
    async with agent(**CONTEXT) as guest:
        one, two = await guest.say("Hello"), await guest.say("Hello")
        for title in ("First", "  Repair of the \u4e2d shop  "):
            renamed = await guest.say("/rename", contextId=one["contextId"], **titled(title))
            assert states(renamed) == "completed"
    wanted = {one["contextId"]: {"Repair of the \u4e2d shop"}, two["contextId"]: {""}}
    async with agent(**CONTEXT) as guest:
        assert await listed(guest) == wanted
        assert await listed(guest, contextId=two["contextId"]) == {two["contextId"]: {""}}


async def test_rename_calls_no_model_and_is_no_part_of_the_history(agent: Any, coding: Any) -> None:
    model = ScriptedModel("One.", "Two.")
    with coding(model) as config:
        async with agent(**config) as guest:
            one = await guest.say("Look")
            await guest.say("/rename x", contextId=one["contextId"], **titled("x"))
            await guest.say("Go on", contextId=one["contextId"])
    assert len(model.prompts) == 2
    assert not any("/rename" in str(each["content"]) for each in model.prompts[-1])


async def test_title_belongs_to_the_owner_of_the_conversation(agent: Any, states: Any) -> None:
    async with agent(**CONTEXT) as guest:
        one = await guest.say("Hello")
        await guest.say("/rename", contextId=one["contextId"], **titled("Mine"))
        other = guest.by("client:other")
        refused = await other.say("/rename", contextId=one["contextId"], **titled("Theirs"))
        assert states(refused) == "rejected"
        assert refused["status"]["message"]["metadata"]["reason"] == "title_unknown"
        assert await listed(other) == {one["contextId"]: {""}}
        assert await listed(guest) == {one["contextId"]: {"Mine"}}


async def test_rename_leaves_a_waiting_task_alone(agent: Any, states: Any, house: Any) -> None:
    async with agent(**CONTEXT, approvals={"tools": ["house__charge_card"]}) as guest:
        asked = await guest.say("Charge card 30")
        renamed = await guest.say("/rename", contextId=asked["contextId"], **titled("Shopping"))
        assert (states(asked), states(renamed)) == ("input-required", "completed")
        assert states(await guest.say("yes", taskId=asked["id"])) == "completed"
        assert await listed(guest) == {asked["contextId"]: {"Shopping"}}
    assert house.ledger == ["charged 30"]


async def test_title_is_exported_and_erased(agent: Any) -> None:
    admin = {**CONTEXT, "administrators": ["default"]}
    async with agent(**admin) as guest:
        one = await guest.say("Hello")
        await guest.say("/rename", contextId=one["contextId"], **titled("Zanzibar"))
        about = {"owner": "client:default", "contextId": one["contextId"]}
        async with guest.http() as http:
            lines = map(json.loads, (await http.get("/admin/memory", params=about)).text.splitlines())
            assert [line["title"] for line in lines if line["kind"] == "conversation"] == ["Zanzibar"]
            assert (await http.delete("/admin/memory", params=about)).status_code == 200
        again = await guest.say("Hello", contextId=one["contextId"])
        assert await listed(guest) == {again["contextId"]: {""}}


async def test_title_may_use_any_script(agent: Any, states: Any) -> None:
    titles = [
        "\U0001f469\u200d\U0001f4bb work",  # An emoji of several characters with a zero-width joiner.
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian with a zero-width non-joiner.
        "\u4e2d\u3000\u6587",  # An ideographic space.
        "10\u00a0km",
        "co\u00adop \ue0b0",
    ]
    async with agent(**CONTEXT) as guest:
        one = await guest.say("Hello")
        for title in titles:
            assert states(await guest.say("/rename", contextId=one["contextId"], **titled(title))) == "completed"
            assert await listed(guest) == {one["contextId"]: {title}}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param("x", "must be an object with title", id="no object"),
        pytest.param({}, "must be an object with title", id="no title"),
        pytest.param({"title": ""}, "1 to 128 characters without", id="empty"),
        pytest.param({"title": "  "}, "is blank", id="blank"),
        pytest.param({"title": "x" * 129}, "1 to 128 characters without", id="too long"),
        pytest.param({"title": "a\x1b[31m"}, "1 to 128 characters without", id="escape sequence"),
        pytest.param({"title": "a\nb"}, "1 to 128 characters without", id="line feed"),
        pytest.param({"title": "a\x85b"}, "1 to 128 characters without", id="control character"),
        pytest.param({"title": "a\u2028b"}, "1 to 128 characters without", id="line separator"),
        pytest.param({"title": "a\u202eb"}, "1 to 128 characters without", id="override of the direction"),
        pytest.param({"title": "a\u200fb"}, "1 to 128 characters without", id="mark of the direction"),
        pytest.param({"title": "\u200d \u200c"}, "is blank", id="invisible"),
        pytest.param({"title": "x", "color": "red"}, "unknown field", id="unknown field"),
    ],
)
async def test_malformed_title_is_invalid(agent: Any, value: Any, says: str) -> None:
    async with agent(**CONTEXT) as guest:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": {CONTEXT_TITLE: value}}
        answer = await guest.call("SendMessage", {"message": message})
    assert answer["error"]["code"] == -32602
    assert says in answer["error"]["message"]
    assert CONTEXT_TITLE in answer["error"]["message"]
