"""The controller of a chat with a scripted agent: commands, questions, forms, sessions and refusals."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.cli.agent_events import CARD, status_update

from fleetwright_a2a.extensions import ASK, CONTEXT, CONTEXT_FORK, CONTEXT_TITLE, COST, WORKSPACE_UNDO
from fleetwright_cli.terminal.model.changes import Change, SendRefused, TextAdded, UserMessageShown
from fleetwright_cli.terminal.session.chat_session import ChatSession
from fleetwright_cli.terminal.session.local_index import IndexEntry, LocalIndex
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, FixedEndpoint
from fleetwright_cli.terminal.view.controller import ChatController


def asked(kind: str, **shown: Any) -> dict[str, Any]:
    part = {"data": shown, "metadata": {"mimeType": "application/vnd.protolabs.hitl-v1+json"}}
    return {"parts": [{"text": "Which?"}, part], "metadata": {ASK: {"id": "q", "kind": kind, "tool": "pay"}}}


class _Pieces(httpx.AsyncByteStream):
    """A body that arrives in pieces of seven bytes."""

    def __init__(self, content: str) -> None:
        self._content = content.encode()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._content), 7):
            yield self._content[at : at + 7]


@dataclass
class ScriptedAgent(httpx.AsyncBaseTransport):
    """Answers each method with the next of its responses: a result, a list of events, or an error."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    card: dict[str, Any] = field(default_factory=lambda: dict(CARD))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=self.card)
        body = json.loads(request.content)
        self.asked.append((body["method"], body["params"]))
        answer = self.answers[body["method"]].pop(0)
        if isinstance(answer, list):
            content = "".join(f"data: {json.dumps({'result': event})}\n\n" for event in answer)
            return httpx.Response(200, stream=_Pieces(content), headers={"Content-Type": "text/event-stream"})
        if isinstance(answer, str):
            return httpx.Response(200, json={"error": {"code": -32602, "message": answer}})
        return httpx.Response(200, json={"result": answer})


@dataclass
class RecordedScreen:
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    chosen: int | None = None
    copied: str = ""
    left: bool = False

    def show(self, change: Change) -> None:
        self.changes.append(change)

    def note(self, text: str, *, bad: bool = False) -> None:
        self.notes.append(text)

    def open_text(self, title: str, text: str) -> None:
        self.texts.append((title, text))

    async def pick(self, title: str, rows: Sequence[str]) -> int | None:
        self.notes += [title, *rows]
        return self.chosen

    def copy(self, text: str) -> None:
        self.copied = text

    def export(self) -> str:
        return "> Hello\n"

    def last_answer(self) -> str:
        return "Answer"

    def leave(self) -> None:
        self.left = True


@dataclass
class Chat:
    controller: ChatController
    agent: ScriptedAgent
    screen: RecordedScreen
    index: LocalIndex

    async def submit(self, text: str) -> None:
        await self.controller.submit(text)
        await self.controller.session.settled()


@asynccontextmanager
async def chat(folder: Path, **answers: list[Any]) -> AsyncIterator[Chat]:
    agent, screen, index = ScriptedAgent(dict(answers)), RecordedScreen(), LocalIndex(folder / "index.json")
    client = AgentClient(FixedEndpoint(AgentTarget("http://x", "secret"), "desk"), transport=agent)
    controller = ChatController(client, screen, index, folder=folder, now=lambda: 5.0)
    try:
        yield Chat(controller, agent, screen, index)
    finally:
        await controller.close()


CALLS = [
    {"toolCallId": "1", "name": "look_up", "phase": "completed", "args": "{}", "outputChars": 80},
    {"toolCallId": "2", "name": "pay", "phase": "failed"},
    {"toolCallId": "3", "name": "wait", "phase": "started"},
]
DONE = [status_update("WORKING"), status_update("COMPLETED")]


async def test_message_carries_choices_and_the_skill_once(tmp_path):
    async with chat(tmp_path, SendStreamingMessage=[DONE, DONE]) as found:
        for text in ("/model small", "/effort low", "/effort huge", "/skill refunds", "/incognito", "Hello", "Again"):
            await found.submit(text)
        first, second = (params["metadata"] for _, params in found.agent.asked)
        assert first == {"model": "small", "reasoning_effort": "low", "skillHint": "refunds", "incognito": True}
        assert second == {"model": "small", "reasoning_effort": "low", "incognito": True}
        assert any(note.startswith("/effort takes low, medium, high") for note in found.screen.notes)
        assert found.index.of("url:http://x") == []


@pytest.mark.parametrize(
    ("used", "told"),
    [
        pytest.param(
            ["small"], ["The agent used small. Its a2a.callerChoices must name Model for /model."], id="other"
        ),
        pytest.param(["small", "large"], [], id="chosen"),
        pytest.param([], [], id="not reported"),
    ],
)
async def test_choice_of_a_model_that_is_ignored_is_told(tmp_path, used, told):
    artifact = {"artifactId": "a", "parts": [{"text": "Hi."}], "metadata": {COST: {"models": used, "usage": {}}}}
    events = [
        status_update("WORKING"),
        {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact}},
        status_update("COMPLETED"),
    ]
    async with chat(tmp_path, SendStreamingMessage=[events]) as found:
        await found.submit("/model large")
        found.screen.notes.clear()
        await found.submit("Hi")
        assert found.screen.notes == told
        assert ("model" in found.controller.metadata) is (not told)


async def test_message_is_listed_in_the_local_index(tmp_path):
    async with chat(tmp_path, SendStreamingMessage=[DONE]) as found:
        await found.submit("Hello there")
        await found.submit("/rename Greeting")
        (entry,) = found.index.of("url:http://x")
        assert (entry.title, entry.used, entry.context_id) == ("Greeting", 5.0, found.controller.state.context_id)


@pytest.mark.parametrize(
    ("outcome", "title", "notes"),
    [
        pytest.param([status_update("COMPLETED")], "Greeting", ["Renamed."], id="stored"),
        pytest.param(
            [status_update("REJECTED", parts=[{"text": "It cannot be renamed."}])],
            "Hello there",
            ["It cannot be renamed."],
            id="refused",
        ),
        pytest.param([], "Hello there", ["the agent has not stored the title; try again"], id="no outcome"),
        pytest.param(
            f"metadata['{CONTEXT_TITLE}'].title must be a text of 1 to 128 printable characters",
            "Hello there",
            ["the agent does not accept this title; use other characters"],
            id="title not accepted",
        ),
        pytest.param("not now", "Hello there", ["not now"], id="other error"),
    ],
)
async def test_rename_stores_the_title_on_the_agent(tmp_path, outcome, title, notes):
    async with chat(tmp_path, SendStreamingMessage=[DONE, outcome]) as found:
        found.agent.card["capabilities"] = {"extensions": [{"uri": CONTEXT_TITLE}]}
        await found.submit("Hello there")
        await found.submit("/rename   Greeting")
        params = found.agent.asked[1][1]
        assert params["metadata"] == {CONTEXT_TITLE: {"title": "Greeting"}}
        assert params["message"]["contextId"] == found.controller.state.context_id
        assert found.screen.notes == notes
        assert [entry.title for entry in found.index.of("url:http://x")] == [title]
        assert found.controller.state.turns == 1, "a rename is no turn of the conversation"


async def test_rename_may_repeat_the_title(tmp_path):
    async with chat(tmp_path, SendStreamingMessage=[DONE]) as found:
        await found.submit("Hello")
        for _ in range(2):
            await found.submit("/rename Greeting")
        assert found.screen.notes == ["Renamed on this machine; the agent stores no titles."] * 2


async def test_rename_without_a_title_or_a_conversation_is_refused(tmp_path):
    async with chat(tmp_path) as found:
        await found.submit("/rename")
        await found.submit("/rename Greeting")
        assert found.screen.notes == ["Give a title: /rename TITLE", "Name a conversation after its first message."]
        assert found.index.of("url:http://x") == []


async def test_renames_are_no_turns_of_a_resumed_conversation(tmp_path):
    tasks = [turn(1), turn(2, **{CONTEXT_TITLE: {"title": "Shop"}})]
    async with chat(tmp_path, ListTasks=[{"tasks": tasks}]) as found:
        await found.submit("/resume c")
        shown = [each.text for each in found.screen.changes if isinstance(each, UserMessageShown)]
        assert shown == ["Task 1"]


async def test_question_takes_the_next_text_as_its_answer(tmp_path):
    question = [status_update("WORKING"), status_update("INPUT_REQUIRED", **asked("question"))]
    async with chat(tmp_path, SendStreamingMessage=[question, DONE]) as found:
        await found.submit("Hello")
        await found.submit("The red one")
        message = found.agent.asked[1][1]["message"]
        assert (message["taskId"], message["parts"]) == ("t", [{"text": "The red one"}])
        assert message["metadata"] == {ASK: {"id": "q"}}


async def test_form_is_filled_field_by_field(tmp_path):
    schema = {"properties": {"count": {"type": "integer"}, "note": {"type": "string"}}, "required": ["count"]}
    form = [status_update("INPUT_REQUIRED", **asked("form", steps=[{"schema": schema}]))]
    async with chat(tmp_path, SendStreamingMessage=[form, DONE]) as found:
        for text in ("Hello", "many", "3", "soon"):
            await found.submit(text)
        assert found.screen.notes == ["count: enter a number"]
        assert found.agent.asked[1][1]["message"]["parts"] == [{"data": {"count": 3, "note": "soon"}}]


@pytest.mark.parametrize(
    ("key", "grants", "part"),
    [
        ("y", [], {"text": "yes"}),
        ("n", [], {"text": "no"}),
        ("a", ["k"], {"data": {"approved": True, "grant": "k"}}),
        ("a", [], None),
    ],
)
async def test_decide_answers_the_ask_of_its_panel(tmp_path, key, grants, part):
    about = asked("approval", grants=[{"key": each, "title": each} for each in grants])
    about["metadata"][ASK]["grants"] = grants
    async with chat(tmp_path, SendStreamingMessage=[[status_update("INPUT_REQUIRED", **about)], DONE]) as found:
        await found.submit("Hello")
        found.controller.decide(found.controller.state.asks[0], key)
        await found.controller.session.settled()
        sent = [params["message"]["parts"][0] for _, params in found.agent.asked[1:]]
        assert sent == ([] if part is None else [part])


async def test_text_never_answers_an_approval(tmp_path):
    approval = [status_update("INPUT_REQUIRED", **asked("approval"))]
    async with chat(tmp_path, SendStreamingMessage=[approval, [status_update("COMPLETED", task="u")]]) as found:
        await found.submit("Hello")
        await found.submit("yes please")
        assert "taskId" not in found.agent.asked[1][1]["message"]


async def test_refused_answer_opens_the_ask_again(tmp_path):
    approval = status_update("INPUT_REQUIRED", **asked("approval"))
    task = {"id": "t", "contextId": "c", "status": approval["statusUpdate"]["status"]}
    async with chat(tmp_path, SendStreamingMessage=[[approval], "no right"], GetTask=[task]) as found:
        await found.submit("Hello")
        found.controller.decide(found.controller.state.asks[0], "y")
        await found.controller.session.settled()
        assert len(found.controller.state.asks) == 1
        assert found.screen.changes[-1] == SendRefused("", "no right")


async def test_resume_shows_turns_and_follows_open_tasks(tmp_path):
    ended = {
        "id": "a", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:01Z"},
        "history": [{"role": "ROLE_USER", "parts": [{"text": "Old question"}]}],
        "artifacts": [
            {"artifactId": "x", "parts": [{"text": "Old answer"}], "metadata": {CONTEXT: {"toolCalls": CALLS}}},
        ],
    }  # fmt: skip
    waiting = status_update("INPUT_REQUIRED", task="b", **asked("approval"))["statusUpdate"]["status"]
    later = [{"toolCallId": "9", "name": "ask", "phase": "completed", "outputChars": 5}]
    waiting["message"]["metadata"][CONTEXT] = {"toolCalls": later}
    task = {"id": "b", "contextId": "c1", "status": waiting | {"timestamp": "2026-01-01T00:00:02Z"}}
    listed = {"tasks": [task, ended]}
    async with chat(tmp_path, ListTasks=[listed, listed], SubscribeToTask=[[{"task": task}]]) as found:
        await found.submit("/sessions")
        assert "waits  Old question" in found.screen.notes[1]
        await found.submit("/resume 1")
        assert found.controller.state.context_id == "c1"
        assert UserMessageShown("Old question") in found.screen.changes
        assert TextAdded("a", "Old answer") in found.screen.changes
        cards = [
            (card.number, card.name, card.arguments, card.ok, card.characters) for card in found.controller.state.cards
        ]
        assert cards == [
            (1, "look_up", "{}", True, 80), (2, "pay", "", False, 0), (3, "wait", "", None, 0), (4, "ask", "", True, 5),
        ]  # fmt: skip
        assert found.controller.state.cards[2].seconds is not None
        assert [ask.task_id for ask in found.controller.state.asks] == ["b"]


def turn(number: int, *, context: str = "c", state: str = "COMPLETED", **metadata: Any) -> dict[str, Any]:
    said = {"role": "ROLE_USER", "parts": [{"text": f"Task {number}"}], "metadata": metadata}
    when = {"state": f"TASK_STATE_{state}", "timestamp": f"2026-01-01T00:00:{number:02}Z"}
    return {"id": f"t{number}", "contextId": context, "status": when, "history": [said]}


def cancelled(number: int, **cost: Any) -> dict[str, Any]:
    """Return a task that was cancelled; without a cost, one that reports none."""
    found = turn(number, state="CANCELED")
    found["status"]["message"] = {"parts": [{"text": "Cancelled."}], "metadata": {COST: cost} if cost else {}}
    return found


UNUSED, USED = {"usage": {}, "success": False}, {"usage": {"input_tokens": 5}, "success": False}


def renaming(number: int) -> dict[str, Any]:
    return turn(number, **{CONTEXT_TITLE: {"title": "Shop"}})


def undo_of(number: int, target: int, **about: Any) -> dict[str, Any]:
    return turn(number, **{WORKSPACE_UNDO: {"taskId": f"t{target}"}}, **about)


@pytest.mark.parametrize(
    ("command", "turns", "target"),
    [
        pytest.param("/undo", [turn(1), turn(2)], "t2", id="the last task"),
        pytest.param("/undo 2", [turn(1), turn(2)], "t1", id="two tasks"),
        pytest.param("/undo", [turn(1), turn(2), undo_of(3, 2)], "t1", id="the last one is undone"),
        pytest.param("/undo", [turn(1), turn(2), undo_of(3, 1), turn(4)], "t4", id="a later task"),
        pytest.param("/undo", [turn(1), undo_of(2, 1, state="FAILED")], "t1", id="the undo has failed"),
        pytest.param("/undo", [turn(1), turn(2), undo_of(3, 1)], None, id="all are undone"),
        pytest.param("/undo", [turn(1), turn(2, state="REJECTED")], "t1", id="rejected"),
        pytest.param("/undo", [turn(1), cancelled(2, **UNUSED)], "t1", id="cancelled in the queue"),
        pytest.param("/undo", [turn(1), cancelled(2, **USED)], "t2", id="cancelled at work"),
        pytest.param("/undo", [turn(1), cancelled(2)], "t2", id="cancelled without a report"),
        pytest.param("/undo", [turn(1), renaming(2)], "t1", id="renamed"),
        pytest.param("/undo", [], None, id="no task"),
        pytest.param("/undo all", [turn(1)], None, id="no number"),
    ],
)
async def test_undo_names_the_first_task_that_it_undoes(tmp_path, command, turns, target):
    async with chat(tmp_path, ListTasks=[{"tasks": turns[::-1]}], SendStreamingMessage=[DONE]) as found:
        await found.submit(command)
        sent = [params for method, params in found.agent.asked if method == "SendStreamingMessage"]
        assert [params["metadata"] for params in sent] == ([{WORKSPACE_UNDO: {"taskId": target}}] if target else [])
        assert all(params["message"]["contextId"] == found.controller.state.context_id for params in sent)
        assert bool(found.screen.notes)


@pytest.mark.parametrize(
    ("command", "later", "last"),
    [
        pytest.param("/fork", [], "t2", id="all of it"),
        pytest.param("/fork 1", [], "t1", id="without the last turn"),
        pytest.param("/fork 2", [], None, id="nothing is left"),
        pytest.param("/fork", [cancelled(4, **UNUSED), turn(5, state="REJECTED")], "t2", id="tasks that never worked"),
        pytest.param("/fork", [cancelled(4, **USED)], "t4", id="cancelled at work"),
        pytest.param("/fork", [renaming(4)], "t2", id="renamed"),
    ],
)
async def test_fork_begins_a_conversation_with_the_history(tmp_path, command, later, last):
    turns = {"tasks": [*later, turn(3, state="WORKING"), turn(2), turn(1)]}
    async with chat(tmp_path, ListTasks=[turns], SendStreamingMessage=[DONE, DONE]) as found:
        source = found.controller.state.context_id
        await found.submit(command)
        assert (found.controller.state.context_id != source) is (last is not None)
        await found.submit("Next")
        await found.submit("After")
        first, second = (params for method, params in found.agent.asked if method == "SendStreamingMessage")
        fork = {CONTEXT_FORK: {"contextId": source, "taskId": last}}
        assert first.get("metadata") == (fork if last else None)
        assert first["message"]["contextId"] == second["message"]["contextId"] == found.controller.state.context_id
        assert "metadata" not in second


@pytest.mark.parametrize(
    ("answers", "forks"),
    [
        pytest.param(["not now", "not now", DONE, DONE], [True, True, True, False], id="no task"),
        pytest.param(
            [[status_update("WORKING"), status_update("REJECTED")], DONE], [True, False], id="task that ends badly"
        ),
    ],
)
async def test_fork_stays_until_its_task_exists(tmp_path, answers, forks):
    async with chat(tmp_path, ListTasks=[{"tasks": [turn(1)]}], SendStreamingMessage=list(answers)) as found:
        await found.submit("/fork")
        for _ in answers:
            await found.submit("Next")
        sent = [params.get("metadata", {}) for method, params in found.agent.asked if method == "SendStreamingMessage"]
        assert [CONTEXT_FORK in each for each in sent] == forks


@pytest.mark.parametrize("command", ["/undo", "/fork"])
async def test_undo_and_fork_need_the_extension(tmp_path, command):
    async with chat(tmp_path) as found:
        found.agent.card["capabilities"] = {}
        await found.submit(command)
        assert found.screen.notes[0].startswith("This agent cannot")
        assert found.agent.asked == []


def fork_turn(number: int, *, context: str, source: str, last: int) -> dict[str, Any]:
    return turn(number, context=context, **{CONTEXT_FORK: {"contextId": source, "taskId": f"t{last}"}})


REFUSED_RENAME = {"state": "REJECTED", CONTEXT_TITLE: {"title": "Shop"}}


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        pytest.param(
            [[fork_turn(4, context="d", source="c", last=2)], [turn(3), turn(2), turn(1)]],
            ["Task 1", "Task 2", "Task 4"],
            id="fork",
        ),
        pytest.param(
            [
                [fork_turn(4, context="d", source="c", last=3)],
                [fork_turn(3, context="c", source="b", last=1), turn(2, context="c", **REFUSED_RENAME)],
                [turn(1, context="b")],
            ],
            ["Task 1", "Task 3", "Task 4"],
            id="source that begins with a rejected rename",
        ),
        pytest.param(
            [
                [fork_turn(4, context="d", source="c", last=2), turn(3, context="d", **REFUSED_RENAME)],
                [turn(2), turn(1)],
            ],
            ["Task 1", "Task 2", "Task 4"],
            id="fork that begins with a rejected rename",
        ),
    ],
)
async def test_resume_of_a_fork_shows_the_turns_of_its_source(tmp_path, listed, wanted):
    async with chat(tmp_path, ListTasks=[{"tasks": each} for each in listed]) as found:
        await found.submit("/resume d")
        shown = [change.text for change in found.screen.changes if isinstance(change, UserMessageShown)]
        assert shown == wanted
        assert found.controller.state.context_id == "d"


@pytest.mark.parametrize("command", ["/sessions", "/resume"])
async def test_conversation_is_chosen_from_a_list(tmp_path, command):
    listed = {"tasks": [turn(1, context="d")]}
    async with chat(tmp_path, ListTasks=[listed, listed]) as found:
        found.screen.chosen = 0
        await found.submit(command)
        assert found.controller.state.context_id == "d"


async def test_resume_says_that_an_old_transcript_is_gone(tmp_path):
    async with chat(tmp_path, ListTasks=[{"tasks": []}, {"tasks": []}]) as found:
        found.index.record(IndexEntry("url:http://x", "old", "Long ago", 1.0))
        await found.submit("/sessions")
        assert "Long ago  (transcript gone)" in found.screen.notes[1]
        await found.submit("/resume 1")
        assert found.screen.notes[-1] == "The agent remembers this conversation; its transcript is gone."
        assert found.controller.state.context_id == "old"


async def test_resume_of_an_unknown_conversation_keeps_this_one(tmp_path):
    async with chat(tmp_path, ListTasks=[{"tasks": []}]) as found:
        before = found.controller.state.context_id
        await found.submit("/resume 99")
        assert found.screen.notes[-1] == "No conversation 99 is known. /sessions lists them."
        assert found.controller.state.context_id == before


async def test_commands_report_and_export(tmp_path):
    async with chat(tmp_path) as found:
        for text in ("/status", "/cost", "/todos", "/tool 3", "/cancel", "/copy", "/export out.md", "/export out.md"):
            await found.submit(text)
        before = found.controller.state.context_id
        for text in ("/new", "/nothing", "/help", "/quit"):
            await found.submit(text)
        assert "skills        refunds" in found.screen.notes[0]
        assert (tmp_path / "out.md").read_text() == "> Hello\n"
        assert (tmp_path / "out.md").stat().st_mode & 0o777 == 0o600
        assert any("/export writes new files only" in note for note in found.screen.notes)
        assert found.screen.copied == "Answer"
        assert found.controller.state.context_id != before
        assert "/nothing is not a command; /help lists them." in found.screen.notes
        assert found.screen.left
        assert "secret" not in " ".join(found.screen.notes)


async def test_lost_stream_is_resumed_after_a_growing_delay(tmp_path):
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    agent = ScriptedAgent(
        {
            "SendStreamingMessage": [[status_update("WORKING")]],
            "SubscribeToTask": [[], [], [status_update("COMPLETED")]],
        }
    )
    client = AgentClient(FixedEndpoint(AgentTarget("http://x", "")), transport=agent)
    session = ChatSession(client, "c", on_change=lambda _: None, sleep=sleep)
    await session.send("Hello")
    await session.close()
    assert [method for method, _ in agent.asked] == ["SendStreamingMessage", *["SubscribeToTask"] * 3]
    assert delays == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        pytest.param({"GetTask": ["gone"]}, "no right", id="the task cannot be read"),
        pytest.param({"GetTask": [{"id": "t", "status": {"state": "TASK_STATE_WORKING"}}]}, "no right", id="it works"),
    ],
)
async def test_refused_subscription_leaves_no_working_task(tmp_path, answers, wanted):
    agent = ScriptedAgent(
        {"SendStreamingMessage": [[status_update("WORKING")]], "SubscribeToTask": ["no right"], **answers}
    )
    client = AgentClient(FixedEndpoint(AgentTarget("http://x", "")), transport=agent)
    changes: list[Change] = []

    async def sleep(_: float) -> None:
        pass

    session = ChatSession(client, "c", on_change=changes.append, sleep=sleep)
    await session.send("Hello")
    await session.close()
    assert changes[-1] == SendRefused("", wanted, sent=True)
    assert not session.state.busy


async def test_unexpected_error_in_a_stream_is_a_failure():
    class Broken(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise LookupError(request.url)

    changes: list[Change] = []
    session = ChatSession(
        AgentClient(FixedEndpoint(AgentTarget("http://x", "")), transport=Broken()), "c", on_change=changes.append
    )
    await session.send("Hello")
    await session.close()
    assert changes[-1] == SendRefused("", "unexpected LookupError in this client")
    assert str(session.failure) == "unexpected LookupError in this client"
    assert not session.state.busy
