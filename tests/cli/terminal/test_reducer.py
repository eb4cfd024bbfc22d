"""The state of a conversation after events, and the changes that a view shows."""

from decimal import Decimal

import pytest

from fleetwright_a2a.extensions import ASK, CONTEXT, COST, TOOL_CALL
from fleetwright_cli.terminal.model.changes import (
    AnswerReplaced,
    AskClosed,
    AskOpened,
    ConnectionChanged,
    ContextChanged,
    CostChanged,
    FileReceived,
    MessageQueued,
    NoteShown,
    PhaseChanged,
    SendRefused,
    TextAdded,
    TodosChanged,
    ToolChanged,
    UserMessageShown,
)
from fleetwright_cli.terminal.model.decoding import decode
from fleetwright_cli.terminal.model.events import (
    AskAnswered,
    ConnectionEvent,
    MessageSent,
    SendFailed,
    TaskAccepted,
)
from fleetwright_cli.terminal.model.reducer import reduce
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.values import ContextUse, TaskCost, TaskPhase, TodoItem


def artifact(text, *, append=False, task="t", identity="a", **metadata):
    content = {"artifactId": identity, "parts": [{"text": text}], "metadata": metadata}
    return decode({"artifactUpdate": {"taskId": task, "artifact": content, "append": append}})


def status(state, *, task="t", text="", metadata=None):
    message = {"message": {"parts": [{"text": text}], "metadata": metadata or {}}}
    about = {"state": f"TASK_STATE_{state}", **message}
    return decode({"statusUpdate": {"taskId": task, "contextId": "c", "status": about}})


def snapshot(state, *texts, task="t"):
    artifacts = [{"artifactId": "a", "parts": [{"text": text}]} for text in texts]
    return decode({"task": {"id": task, "status": {"state": f"TASK_STATE_{state}"}, "artifacts": artifacts}})


def tool(phase, field, text, **more):
    payload = {"toolCallId": "1", "name": more.pop("name", "look_up"), "phase": phase, field: text, **more}
    return status("WORKING", metadata={TOOL_CALL: payload})


def ask(identity="q", **about):
    return status("INPUT_REQUIRED", text="Run it?", metadata={ASK: {"id": identity, "kind": "approval", **about}})


def after(*events, state=None):
    state = state or ChatState(context_id="c")
    shown = []
    for at, event in enumerate(events):
        state, changes = reduce(state, event, at=float(at))
        shown += changes
    return state, shown


BEGUN = (MessageSent("m", "Hello"), TaskAccepted("m", "t"), status("WORKING"))


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        pytest.param(
            [artifact("One "), artifact("two.", append=True), artifact("One two.")],
            [TextAdded("t", "One "), TextAdded("t", "two.")],
            id="the last event repeats the answer",
        ),
        pytest.param(
            [artifact("One"), artifact("One two.")],
            [TextAdded("t", "One"), TextAdded("t", " two.")],
            id="the last event has text that was not streamed",
        ),
        pytest.param(
            [artifact("I look. "), artifact("Done.", append=True), artifact("Done.")],
            [TextAdded("t", "I look. "), TextAdded("t", "Done.")],
            id="the last event has only the end",
        ),
        pytest.param(
            [artifact("Wrong"), artifact(""), artifact("Right")],
            [TextAdded("t", "Wrong"), AnswerReplaced("t"), TextAdded("t", "Right")],
            id="the agent takes text back",
        ),
        pytest.param(
            [artifact("One"), snapshot("WORKING", "One two")],
            [TextAdded("t", "One"), TextAdded("t", " two")],
            id="a snapshot after a lost connection",
        ),
        pytest.param(
            [artifact("One"), artifact("Two", identity="b")],
            [TextAdded("t", "One"), TextAdded("t", "\n\nTwo")],
            id="a second artifact",
        ),
    ],
)
def test_reduce_shows_each_text_of_an_answer_once(events, wanted):
    _, shown = after(*BEGUN, *events)
    assert [each for each in shown if isinstance(each, TextAdded | AnswerReplaced)] == wanted


def test_reduce_numbers_tool_calls_and_measures_them():
    started = tool("started", "args", '{"order": 1}')
    state, shown = after(
        *BEGUN, started, tool("output", "output", "a"), tool("completed", "result", "b", outputChars=9.0)
    )
    cards = [each.card for each in shown if isinstance(each, ToolChanged)]
    assert [(card.number, card.ok, card.output, card.result) for card in cards] == [
        (1, None, "", ""),
        (1, None, "a", ""),
        (1, True, "a", "b"),
    ]
    assert (cards[-1].characters, cards[-1].seconds) == (9, 2.0)
    assert state.card(1) == cards[-1]


def test_reduce_marks_calls_without_a_result_as_unknown():
    state, _ = after(*BEGUN, tool("started", "args", "{}"), status("FAILED", text="It broke."))
    assert (state.cards[0].ok, state.cards[0].seconds) == (None, 0.0)


def test_reduce_keeps_the_newest_two_hundred_calls():
    calls = [tool("started", "args", "{}", toolCallId=str(number)) for number in range(250)]
    state, _ = after(*BEGUN, *calls)
    assert (len(state.cards), state.calls, state.cards[-1].number) == (200, 250, 250)


def test_reduce_opens_and_closes_asks():
    state, shown = after(*BEGUN, ask("1"), ask("2"))
    first, second = (each.ask for each in shown if isinstance(each, AskOpened))
    assert [each for each in shown if isinstance(each, AskClosed)] == [AskClosed(first, "decided elsewhere")]
    assert state.asks == (second,)
    state, shown = after(AskAnswered(second, "approved"), state=state)
    assert (state.asks, shown) == ((), [AskClosed(second, "approved")])


def test_reduce_closes_the_ask_of_a_cancelled_task():
    state, shown = after(*BEGUN, ask(), status("CANCELED"))
    assert state.asks == ()
    assert shown[-1] == PhaseChanged("t", TaskPhase.CANCELED)


def test_reduce_queues_a_message_behind_a_running_task():
    second = (MessageSent("n", "More"), TaskAccepted("n", "u"), status("SUBMITTED", task="u"))
    state, shown = after(*BEGUN, *second)
    assert shown[-1] == MessageQueued("More")
    assert state.queued == ("More",)
    state, shown = after(status("COMPLETED"), status("WORKING", task="u"), state=state)
    assert [each for each in shown if isinstance(each, UserMessageShown)] == [UserMessageShown("More")]
    assert state.queued == ()


def test_reduce_adds_the_costs_of_tasks_once():
    cost = {"usage": {"input_tokens": 10, "output_tokens": 5}, "costUsd": 0.25, "modelCalls": 1}
    again = {"usage": {"input_tokens": 20, "output_tokens": 5}, "costUsd": 0.5, "modelCalls": 2}
    first = (status("INPUT_REQUIRED", metadata={COST: cost}), artifact("Hi", **{COST: again}), status("COMPLETED"))
    state, shown = after(*BEGUN, *first)
    assert [each.cost.usd for each in shown if isinstance(each, CostChanged)] == [Decimal("0.25"), Decimal("0.5")]
    second = (MessageSent("n", "x"), TaskAccepted("n", "u"), artifact("Hi", task="u", **{COST: cost}))
    state, _ = after(*second, state=state)
    assert state.cost == TaskCost(input_tokens=30, output_tokens=10, usd=Decimal("0.75"), model_calls=3)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        pytest.param(
            '{"todos": [{"content": "Read", "status": "completed"}, {"content": "Edit"}]}',
            (TodoItem("Read", "completed"), TodoItem("Edit", "pending")),
            id="a whole list",
        ),
        pytest.param(
            '{"todos": [{"content": "Read", "status": "completed"}, {"content": "Ed', (TodoItem("Read", "completed"),),
            id="a cut list",
        ),
        pytest.param('{"todos": []}', (), id="an empty list"),
    ],
)  # fmt: skip
def test_reduce_reads_todos_from_the_arguments_of_the_tool(arguments, wanted):
    state, shown = after(*BEGUN, tool("started", "args", arguments, name="todo_write"))
    assert state.todos == wanted
    assert shown[-1] == TodosChanged(wanted)


def test_reduce_reports_a_refused_message_with_its_text():
    first, second = MessageSent("m", "Hello"), MessageSent("n", "More")
    state, shown = after(first, second, SendFailed("n", "too many"))
    assert shown[-1] == SendRefused("More", "too many")
    assert state.queued == ()


def test_reduce_reports_the_connection_once():
    _, shown = after(
        ConnectionEvent(True), ConnectionEvent(False, "gone"), ConnectionEvent(False), ConnectionEvent(True)
    )
    assert shown == [ConnectionChanged(False, "gone"), ConnectionChanged(True)]


def test_reduce_shows_each_file_once():
    about = {"toolCallId": "1", "name": "edit"}
    file = {"artifactId": "f", "parts": [{"text": "+a", "filename": "a.diff"}], "metadata": {TOOL_CALL: about}}
    once = decode({"artifactUpdate": {"taskId": "t", "artifact": file}})
    again = decode({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [file]}})
    _, shown = after(*BEGUN, once, again)
    assert [each.file.name for each in shown if isinstance(each, FileReceived)] == ["a.diff"]


def test_reduce_keeps_the_size_of_the_context():
    size = {"model": "m", "promptTokens": 50.0, "windowTokens": 200.0, "compactions": 0.0}
    compaction = {"compactions": 1.0, "compaction": {"phase": "ended"}}
    state, shown = after(
        *BEGUN,
        status("WORKING", text="The prompt has 50 of 200 tokens.", metadata={CONTEXT: size}),
        status("WORKING", text="Compaction ok.", metadata={CONTEXT: compaction}),
        artifact("Hi", **{CONTEXT: {**size, "promptTokens": 20.0, "compactions": 1.0}}),
    )
    assert [each.text for each in shown if isinstance(each, NoteShown)] == ["Compaction ok."]
    used = [each.context.prompt_tokens for each in shown if isinstance(each, ContextChanged)]
    assert used == [50, 50, 20]
    assert state.context == ContextUse("m", 20, 200, 1)


def test_reduce_shows_progress_as_notes():
    _, shown = after(*BEGUN, status("WORKING", text="Compacting the conversation of 9 tokens."))
    assert shown[-1] == NoteShown("Compacting the conversation of 9 tokens.")


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"task": "x"},
        {"statusUpdate": {"status": 7}},
        {"statusUpdate": {"taskId": "t", "status": {"state": "NEW", "message": {"parts": [None, {"text": 1}]}}}},
        {"artifactUpdate": {"artifact": {"parts": "x", "metadata": [1]}}},
        {"artifactUpdate": {"taskId": "t", "artifact": {"parts": [{"raw": "%%", "filename": "f"}]}}},
        {"task": {"id": "t", "artifacts": [{"metadata": {COST: {"costUsd": float("nan"), "usage": []}}}]}},
        {"task": {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"metadata": {ASK: 5}}}}},
        {"statusUpdate": {"taskId": "t", "status": {"message": {"metadata": {TOOL_CALL: {"phase": "new"}}}}}},
    ],
)  # fmt: skip
def test_decode_ignores_values_of_unexpected_types(result):
    event = decode(result)
    if event is not None:
        reduce(ChatState(context_id="c"), event)
        state, _ = after(*BEGUN)
        reduce(state, event)
