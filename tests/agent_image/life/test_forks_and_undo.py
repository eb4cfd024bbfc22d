"""Callers who fork a conversation, or undo the file changes of its tasks, over A2A with a real workspace."""

from collections.abc import Callable
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from tests.support.agent.scripted_model import EDIT, READ, ScriptedModel
from tests.support.workspace import LocalWorkspace

from fleetwright_a2a.extensions import CONTEXT_FORK, CONTEXT_TITLE, WORKSPACE_UNDO

AUTO = {"approvals": {"edits": "Auto", "shell": "Auto"}}
ITEM = {"id": "1", "content": "Fix app.py", "status": "pending", "priority": "high"}


class NeverRun(AgentExecutor):
    """A custom executor that must not receive the message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise AssertionError(context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise AssertionError(context)


def writes(path: str, content: str) -> list[tuple[str, dict[str, Any]]]:
    return [("write_file", {"path": path, "content": content})]


def forking(task: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {CONTEXT_FORK: {"contextId": task["contextId"], "taskId": task["id"], **fields}}


def texts(prompt: list[dict[str, Any]], role: str) -> list[str]:
    """Return the texts of a role, without the overview of the workspace."""
    said = [str(each["content"]) for each in prompt if each["role"] == role]
    return [text for text in said if not text.startswith("<workspace_overview")]


@pytest.fixture
def automatic(coding: Callable[..., Any], workspace: LocalWorkspace) -> Callable[..., Any]:
    """Return a function like `coding`, of an agent that changes files without asking."""
    return lambda model: coding(model, workspace={"url": str(workspace.http.base_url).rstrip("/"), **AUTO})


async def test_undo_restores_the_files_of_later_tasks(
    agent: Any,
    states: Any,
    automatic: Any,
    workspace: LocalWorkspace,
) -> None:
    command = [("bash", {"command": "echo by hand > made.txt"})]
    first = ([READ], [EDIT], writes("new.txt", "x\n"), "One.")
    model = ScriptedModel(*first, writes("made.txt", "x\n"), command, "Two.", "Three.")
    with automatic(model) as config:
        async with agent(**config) as guest:
            one = await guest.say("Fix it")
            context = one["contextId"]
            await guest.say("Make it", contextId=context)
            assert (workspace.root / "app.py").read_text() == "one\n2\n"
        async with agent(**config) as guest:
            undone = await guest.say("/undo", contextId=context, metadata={WORKSPACE_UNDO: {"taskId": one["id"]}})
            assert states(undone) == "completed"
            (answer,) = undone["artifacts"]
            told = answer["metadata"][WORKSPACE_UNDO]
            assert sorted(told["restored"]) == ["app.py", "new.txt"]
            assert [each["path"] for each in told["skipped"]] == ["made.txt"]
            assert WORKSPACE_UNDO in answer["extensions"]
            assert "Not restored: made.txt (it was changed by something else since)" in answer["parts"][0]["text"]
            await guest.say("And now?", contextId=context)
    assert (workspace.root / "app.py").read_text() == "one\ntwo\n"
    assert not (workspace.root / "new.txt").exists()
    assert (workspace.root / "made.txt").read_text() == "by hand\n"
    assert len(model.prompts) == 8, "an undo calls no model"
    assert "/undo" in texts(model.prompts[-1], "user")
    assert any("Restored app.py" in text for text in texts(model.prompts[-1], "assistant"))


async def test_undo_leaves_other_conversations_alone(
    agent: Any,
    states: Any,
    automatic: Any,
    workspace: LocalWorkspace,
) -> None:
    model = ScriptedModel(writes("mine.txt", "x\n"), "One.", writes("theirs.txt", "x\n"), "Two.")
    with automatic(model) as config:
        async with agent(**config) as guest:
            mine = await guest.say("Write")
            theirs = await guest.by("client:other").say("Write")
            for task, context in ((theirs["id"], mine["contextId"]), ("none", mine["contextId"])):
                refused = await guest.say("/undo", contextId=context, metadata={WORKSPACE_UNDO: {"taskId": task}})
                assert states(refused) == "rejected"
            foreign = {"contextId": theirs["contextId"], "metadata": {WORKSPACE_UNDO: {"taskId": theirs["id"]}}}
            assert states(await guest.say("/undo", **foreign)) == "rejected"
            undone = await guest.say(
                "/undo", contextId=mine["contextId"], metadata={WORKSPACE_UNDO: {"taskId": mine["id"]}}
            )
            assert undone["artifacts"][0]["metadata"][WORKSPACE_UNDO] == {"restored": ["mine.txt"], "skipped": []}
    assert [path.name for path in workspace.root.glob("*.txt")] == ["theirs.txt"]


async def test_undo_without_a_workspace_fails(
    agent: Any,
    states: Any,
    automatic: Any,
    workspace: LocalWorkspace,
) -> None:
    with automatic(ScriptedModel("One.")) as config:
        async with agent(**config) as guest:
            one = await guest.say("Look")
            workspace.runner.kill()
            workspace.runner.wait()
            failed = await guest.say(
                "/undo", contextId=one["contextId"], metadata={WORKSPACE_UNDO: {"taskId": one["id"]}}
            )
            assert states(failed) == "failed"
            assert "cannot be reached" in failed["status"]["message"]["parts"][0]["text"]


async def test_fork_has_the_history_up_to_its_task(
    agent: Any,
    states: Any,
    automatic: Any,
    workspace: LocalWorkspace,
) -> None:
    todo = [("todo_write", {"todos": [ITEM]})]
    later = [("todo_write", {"todos": []})]
    model = ScriptedModel([READ], todo, "First.", later, "Second.", [EDIT], [("todo_read", {})], "Forked.", "Third.")
    with automatic(model) as config:
        async with agent(**config) as guest:
            one = await guest.say("Look")
            two = await guest.say("Then", contextId=one["contextId"])
            fork = await guest.say("Instead", metadata=forking(one))
            assert states(fork) == "completed"
            assert fork["contextId"] != one["contextId"]
            assert texts(model.prompts[-1], "user")[-2:] == ["Look", "Instead"]
            assert "First." in texts(model.prompts[-1], "assistant")
            assert "has not read" in model.results()[-2], "a file must be read again"
            assert ITEM["content"] in model.results()[-1]
            kept = (await guest.get(fork))["history"][0]["metadata"][CONTEXT_FORK]
            assert kept == {"contextId": one["contextId"], "taskId": one["id"]}
            assert states(await guest.say("More", contextId=two["contextId"])) == "completed"
            assert "Instead" not in texts(model.prompts[-1], "user"), "the source does not change"


async def test_fork_without_a_task_has_the_whole_history(agent: Any, states: Any, automatic: Any) -> None:
    model = ScriptedModel("First.", "Second.", "Forked.")
    with automatic(model) as config:
        async with agent(**config) as guest:
            one = await guest.say("Look")
            await guest.say("Then", contextId=one["contextId"])
        async with agent(**config) as guest:
            fork = await guest.say("Instead", metadata={CONTEXT_FORK: {"contextId": one["contextId"]}})
            assert states(fork) == "completed"
    assert texts(model.prompts[-1], "user")[-3:] == ["Look", "Then", "Instead"]


async def test_fork_takes_no_grant_with_it(
    agent: Any,
    states: Any,
    coding: Any,
    workspace: LocalWorkspace,
) -> None:
    back = ("edit_file", {"path": "app.py", "old_text": "2", "new_text": "two"})
    with coding(ScriptedModel([READ], [EDIT], "Done.", [READ], [back], "Done.")) as config:
        async with agent(**config) as guest:
            asked = await guest.say("Fix it")
            assert states(await guest.say("always", taskId=asked["id"])) == "completed"
            assert states(await guest.say("Back", metadata=forking(asked))) == "input-required"
    assert (workspace.root / "app.py").read_text() == "one\n2\n"


async def test_fork_is_refused_without_a_source(agent: Any, states: Any, automatic: Any) -> None:
    model = ScriptedModel("One.", "Two.")
    with automatic(model) as config:
        async with agent(**config) as guest:
            one = await guest.say("Look")
            theirs = await guest.by("client:other").say("Look")
            for metadata, context in (
                (forking(one, taskId="none"), {}),
                (forking(one, contextId="none"), {}),
                (forking(theirs), {}),
                (forking(one), {"contextId": one["contextId"]}),
            ):
                refused = await guest.say("Instead", metadata=metadata, **context)
                assert states(refused) == "rejected", metadata
    assert len(model.prompts) == 2


@pytest.mark.parametrize(
    ("uri", "value"),
    [
        (CONTEXT_FORK, "c"),
        (CONTEXT_FORK, {}),
        (CONTEXT_FORK, {"taskId": "t"}),
        (CONTEXT_FORK, {"contextId": "c", "rewind": True}),
        (CONTEXT_FORK, {"contextId": "c" * 129}),
        (CONTEXT_FORK, {"contextId": "a\nb"}),
        (WORKSPACE_UNDO, {"taskId": 7}),
        (WORKSPACE_UNDO, {"taskId": ""}),
        (WORKSPACE_UNDO, {"contextId": "c"}),
    ],
)
async def test_malformed_change_is_invalid(agent: Any, automatic: Any, uri: str, value: Any) -> None:
    with automatic(ScriptedModel()) as config:
        async with agent(**config) as guest:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": {uri: value}}
            answer = await guest.call("SendMessage", {"message": message})
    assert answer["error"]["code"] == -32602
    assert uri in answer["error"]["message"]


@pytest.mark.parametrize(
    ("uri", "value", "needed"),
    [
        pytest.param(CONTEXT_FORK, {"contextId": "c"}, "a workspace or a2a.extensions.context", id="fork"),
        pytest.param(CONTEXT_TITLE, {"title": "x"}, "a workspace or a2a.extensions.context", id="title"),
        pytest.param(WORKSPACE_UNDO, {"taskId": "t"}, "a workspace", id="undo"),
    ],
)
@pytest.mark.parametrize(
    ("custom", "as_part"),
    [
        pytest.param(False, False, id="in the metadata"),
        pytest.param(False, True, id="in a data part"),
        pytest.param(True, False, id="to a custom executor"),
    ],
)
async def test_change_that_the_agent_lacks_is_invalid(
    open_door: Any, uri: str, value: Any, needed: str, custom: bool, as_part: bool
) -> None:
    door = await open_door(**({"executor": NeverRun()} if custom else {}))
    part = {"data": value, "metadata": {"mimeType": uri}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}, *([part] if as_part else [])]}
    answer = await door.call("SendMessage", {"message": {**message, **({} if as_part else {"metadata": {uri: value}})}})
    assert answer["error"]["code"] == -32602
    assert uri in answer["error"]["message"]
    assert f"which needs {needed}, and" in answer["error"]["message"]
    assert not (door.turn and door.turn.requests)
