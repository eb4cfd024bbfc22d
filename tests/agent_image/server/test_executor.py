"""Mapping of frames to events: the output of a turn, and its cost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from google.protobuf.json_format import MessageToDict
from tests.support.waiting import await_until

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extension_codec import read
from fleetwright_a2a.extensions import CONTEXT, COST
from fleetwright_a2a.task_events import Event, fold
from fleetwright_agent.config.server import Extensions
from fleetwright_agent.protocol.frames import (
    CompactionEnd,
    CompactionStart,
    ContextReport,
    Frame,
    InterruptKind,
    InterruptRequest,
    PeerCost,
    Purpose,
    StreamReset,
    Text,
    ToolEnd,
    ToolStart,
    TurnDone,
    TurnRequest,
    Usage,
)
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.server.executors.answer import FLUSH_SECONDS
from fleetwright_agent.server.executors.port import TaskJob
from fleetwright_agent.server.executors.turn_executor import TurnExecutor
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.ops.last_compaction import LastCompaction

JOB = TaskJob(owner="o", task_id="t", context_id="c", message=Message(parts=[Part(text="one"), Part(text="two")]))
Script = Callable[[TurnRequest], AsyncIterator[Frame]]


class Told:
    """A run of scripted frames, and all events that it emitted."""

    def __init__(
        self,
        scripted: Callable[[Script], Any],
        script: Script,
        extensions: Extensions = Extensions(),  # noqa: B008 - frozen
    ) -> None:
        self.turn = scripted(script)
        self.seconds = iter([100.0, 100.0, 101.5, 101.5])
        self.compaction = LastCompaction()
        clock = Clock(now_ns=lambda: 5_000_000_000, monotonic=lambda: next(self.seconds))
        executor = TurnExecutor(
            TurnLoader(lambda: self.turn),
            myself="team/echo",
            clock=clock,
            compaction=self.compaction,
            extensions=extensions,
        )
        self.emitted: list[Event] = []
        self.work = executor.begin(JOB, self.emitted.append)

    async def run(self) -> Sequence[Event]:
        return await self.work.run()

    @property
    def pieces(self) -> list[tuple[str, bool]]:
        found = [e for e in self.emitted if isinstance(e, TaskArtifactUpdateEvent)]
        return [(e.artifact.parts[0].text, e.append) for e in found]

    @property
    def messages(self) -> list[Message]:
        found = [e.status.message for e in self.emitted if isinstance(e, TaskStatusUpdateEvent)]
        return [message for message in found if message.parts]

    @property
    def sentences(self) -> list[str]:
        return [message.parts[0].text for message in self.messages]


def playing(*frames: Frame | float) -> Script:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        for frame in frames:
            if isinstance(frame, float):
                await asyncio.sleep(frame)
            else:
                yield frame

    return script


@pytest.fixture
def tell(scripted: Callable[[Script], Any]) -> Callable[..., Told]:
    def of(*frames: Frame | float) -> Told:
        return Told(scripted, playing(*frames))

    return of


async def test_event_mapper_sends_the_first_text_at_once_then_batches(tell: Callable[..., Told]) -> None:
    told = tell(Text("a"), Text("b"), Text("c"), FLUSH_SECONDS * 1.5, Text("d"), TurnDone("abcd"))
    final = await told.run()
    assert told.pieces == [("a", False), ("bc", True)]
    assert final[0].artifact.parts[0].text == "abcd"
    assert (final[0].append, final[0].last_chunk) == (False, True)
    assert final[-1].status.state == TaskState.TASK_STATE_COMPLETED
    assert len(final) == 2


async def test_event_mapper_final_artifact_replaces_the_chunks(tell: Callable[..., Told]) -> None:
    told = tell(Text("I will look. "), ToolStart("1", "t", "{}"), Text("Wait."), TurnDone("Found."))
    final = await told.run()
    task = Task(id="t", context_id="c")
    for event in [*told.emitted, *final]:
        fold(task, event)
    assert [[part.text for part in artifact.parts] for artifact in task.artifacts] == [["Found."]]


async def test_event_mapper_flushes_text_before_a_tool_call(tell: Callable[..., Told]) -> None:
    told = tell(
        Text("a"), Text("b"), ToolStart("1", "search", "{}"), ToolEnd("1", "search", False, "x"), TurnDone("ab")
    )
    await told.run()
    kinds = [type(e).__name__ for e in told.emitted]
    assert kinds == ["TaskStatusUpdateEvent"] + ["TaskArtifactUpdateEvent"] * 2 + ["TaskStatusUpdateEvent"] * 2
    assert told.sentences == ["Calling search.", "search failed."]


async def test_event_mapper_reset_retracts_the_text(tell: Callable[..., Told]) -> None:
    told = tell(
        Text("wrong"), Text(" way"), StreamReset("retry"), Text("right"), FLUSH_SECONDS * 1.5, TurnDone("right")
    )
    await told.run()
    assert told.pieces == [("wrong", False), ("", False), ("right", True)]


async def test_event_mapper_closes_the_turn_after_an_encoding_error(scripted: Callable[[Script], Any]) -> None:
    ended = []

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        try:
            yield Text("half of a character: \ud83d")
            yield TurnDone("never")
        finally:
            ended.append("let go")

    told = Told(scripted, script)
    with pytest.raises(UnicodeEncodeError) as raised:
        await told.run()
    assert ended == ["let go"], raised


async def test_event_mapper_uses_the_text_if_the_turn_has_no_result(tell: Callable[..., Told]) -> None:
    final = await tell(Text("a"), Text("b")).run()
    assert final[0].artifact.parts[0].text == "ab"


async def test_event_mapper_reports_compaction_and_records_it(tell: Callable[..., Told]) -> None:
    told = tell(CompactionStart(900), CompactionEnd("compacted", 900, 300, "tokens", "summary", 12, 700), TurnDone("x"))
    await told.run()
    assert told.sentences == [
        "Compacting the conversation of 900 tokens.",
        "Compaction compacted: 900 tokens before, 300 after.",
    ]
    assert told.compaction.seen == {
        "at": "1970-01-01T00:00:05+00:00",
        "outcome": "compacted",
        "tokensBefore": 900,
        "tokensAfter": 300,
        "trigger": "tokens",
        "method": "summary",
        "paybackCalls": 12,
        "cheapestTrigger": 700,
    }


SIZE = {"model": "m", "promptTokens": 900, "windowTokens": 1000}
STARTED = {"phase": "started", "tokensBefore": 900}
ENDED = {
    "phase": "ended",
    "outcome": "ok",
    "tokensBefore": 900,
    "tokensAfter": 300,
    "trigger": "t",
    "method": "summary",
}
FAILED = {**ENDED, "outcome": "failed"}


@pytest.mark.parametrize(
    ("frames", "payloads", "final"),
    [
        pytest.param([], [], None, id="no model call"),
        pytest.param(
            [ContextReport("m", 900, 1000)], [{**SIZE, "compactions": 0}], {**SIZE, "compactions": 0}, id="one"
        ),
        pytest.param(
            [CompactionStart(900), CompactionEnd("ok", 900, 300, "t", "summary"), ContextReport("m", 900, 1000)],
            [
                {"compactions": 0, "compaction": STARTED},
                {"compactions": 1, "compaction": ENDED},
                {**SIZE, "compactions": 1},
            ],
            {**SIZE, "compactions": 1},
            id="a compaction",
        ),
        pytest.param(
            [ContextReport("m", 900, 1000), CompactionEnd("failed", 900, 300, "t", "summary")],
            [{**SIZE, "compactions": 0}, {**SIZE, "compactions": 0, "compaction": FAILED}],
            {**SIZE, "compactions": 0},
            id="a failed compaction",
        ),
    ],
)
async def test_event_mapper_reports_the_context(
    scripted: Callable[[Script], Any], frames: list[Frame], payloads: list[Any], final: Any
) -> None:
    told = Told(scripted, playing(*frames, TurnDone("x")), extensions=Extensions(context=True))
    answer = (await told.run())[0].artifact.metadata
    assert [MessageToDict(each.metadata)[CONTEXT] for each in told.messages] == payloads
    assert MessageToDict(answer).get(CONTEXT) == final


CALLS: list[Frame] = [ToolStart("1", "t", "x" * 300), ToolEnd("1", "t", True, "r", 7), ToolStart("2", "u", "{}", "1")]
SHORT = [
    {"toolCallId": "1", "name": "t", "phase": "completed", "args": "x" * 200, "outputChars": 7},
    {"toolCallId": "2", "name": "u", "phase": "started", "args": "{}", "parentToolCallId": "1"},
]


@pytest.mark.parametrize(("shown", "calls"), [(True, SHORT), (False, None)])
async def test_event_mapper_keeps_tool_calls_in_the_answer(
    scripted: Callable[[Script], Any], shown: bool, calls: Any
) -> None:
    frames = [*CALLS, ContextReport("m", 900, 1000), TurnDone("x")]
    told = Told(scripted, playing(*frames), extensions=Extensions(context=True, toolCalls=shown))
    answer = (await told.run())[0].artifact.metadata
    assert MessageToDict(answer)[CONTEXT].get("toolCalls") == calls


async def test_event_mapper_keeps_tool_calls_in_a_question(scripted: Callable[[Script], Any]) -> None:
    ask = InterruptRequest(InterruptKind.QUESTION, "?", {"kind": "question"}, "ask")
    told = Told(scripted, playing(*CALLS, ContextReport("m", 900, 1000), ask), extensions=Extensions(context=True))
    (event,) = await told.run()
    assert MessageToDict(event.status.message.metadata)[CONTEXT]["toolCalls"] == SHORT


async def test_event_mapper_hides_the_context_by_default(tell: Callable[..., Told]) -> None:
    told = tell(ContextReport("m", 900, 1000), TurnDone("x"))
    answer = (await told.run())[0].artifact.metadata
    assert told.sentences == []
    assert CONTEXT not in MessageToDict(answer)


def bill(event: Event) -> dict[str, Any]:
    assert isinstance(event, TaskArtifactUpdateEvent)
    assert list(event.artifact.extensions) == [COST]
    payload: dict[str, Any] = MessageToDict(event.artifact.metadata)[COST]
    return payload


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        pytest.param(
            [
                Usage("m", 100, 10, cache_read_tokens=40, cost_usd=Decimal("0.0012345")),
                Usage("m", 50, 5, cost_usd=Decimal("0.001"), purpose=Purpose.SUMMARY),
            ],
            {
                "usage": {"input_tokens": 150, "output_tokens": 15, "cache_read_input_tokens": 40},
                "durationMs": 1500,
                "success": True,
                "costUsd": 0.002234,
                "modelCalls": 2,
                "models": ["m"],
            },
            id="every call of every purpose counts, and dollars have six decimals",
        ),
        pytest.param(
            [Usage("m", 1, 1, cost_usd=Decimal("0.5")), Usage("unpriced", 1, 1)],
            {
                "usage": {"input_tokens": 2, "output_tokens": 2},
                "durationMs": 1500,
                "success": True,
                "modelCalls": 2,
                "models": ["m", "unpriced"],
            },
            id="without a price for every call there is no cost",
        ),
        pytest.param(
            [Usage("m", 1, 1, cost_usd=Decimal("0.5")), PeerCost("a/b", Decimal("0.25")), PeerCost("a/b", Decimal(1))],
            {
                "usage": {"input_tokens": 1, "output_tokens": 1},
                "durationMs": 1500,
                "success": True,
                "costUsd": 0.5,
                "modelCalls": 1,
                "models": ["m"],
                "peersCostUsd": {"a/b": 1.25},
            },
            id="what peers cost is told apart from our own cost",
        ),
    ],
)
async def test_event_mapper_reports_cost(
    tell: Callable[..., Told], frames: list[Frame], expected: dict[str, Any]
) -> None:
    final = await tell(*frames, TurnDone("x")).run()
    assert bill(final[0]) == expected


async def test_aborted_run_keeps_its_text_and_its_cost(tell: Callable[..., Told]) -> None:
    told = tell(Usage("m", 3, 1), Text("half"), 60.0)
    running = asyncio.ensure_future(told.run())
    await await_until(lambda: told.pieces, "the run has its first frame", pause=0)
    running.cancel()
    await asyncio.wait({running})
    final = told.work.cut(Termination(TaskState.TASK_STATE_CANCELED, "Stopped.", "canceled"))
    assert final[0].artifact.parts[0].text == "half"
    assert bill(final[0])["success"] is False
    assert final[1].status.message.parts[0].text == "Stopped."
    assert final[1].status.state == TaskState.TASK_STATE_CANCELED


async def test_aborted_run_without_output_reports_zero_cost(
    tell: Callable[..., Told],
) -> None:
    (end,) = tell().work.cut(Termination(TaskState.TASK_STATE_FAILED, "No.", "x"))
    message = end.status.message
    assert (message.parts[0].text, [*message.extensions]) == ("No.", [COST])
    told = read(message, COST)
    assert told is not None
    assert (told["success"], set(told["usage"].values())) == (False, {0})


async def test_turn_request_joins_text_parts_with_newlines(tell: Callable[..., Told]) -> None:
    told = tell(TurnDone("x"))
    await told.run()
    assert told.turn.requests[0].text == "one\ntwo"
