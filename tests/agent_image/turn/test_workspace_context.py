"""The place of the workspace's overview in prompts: before the caller's message, the same during a turn."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from tests.support.agent.fleet import build_context

from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.model.workspace_context import WorkspaceContextLink

BEFORE = [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
ASKED = HumanMessage("fix it", id="3")
LATER: list[AnyMessage] = [
    AIMessage("", id="4", tool_calls=[{"name": "read_file", "args": {}, "id": "x"}]),
    ToolMessage("text", tool_call_id="x", id="5"),
]


class Overviews:
    def __init__(self) -> None:
        self.read = 0

    async def __call__(self, _: TurnRequest) -> str:
        self.read += 1
        return f"overview {self.read}"


def request_of(context: TurnContext, messages: list[AnyMessage], shown: list[AnyMessage] | None = None) -> Any:
    runtime: Any = SimpleNamespace(context=context)
    model: Any = None
    return ModelRequest(
        model=model, messages=shown if shown is not None else messages, state={"messages": messages}, runtime=runtime
    )


async def prompts(link: WorkspaceContextLink, context: TurnContext, *steps: list[AnyMessage]) -> list[list[AnyMessage]]:
    sent: list[list[AnyMessage]] = []

    async def call(request: Any) -> Any:
        sent.append(list(request.messages))

    for messages in steps:
        await link.around_model(request_of(context, messages), call)
    return sent


async def test_overview_comes_before_the_callers_message() -> None:
    [sent] = await prompts(WorkspaceContextLink(Overviews()), build_context(), [*BEFORE, ASKED])
    assert [message.content for message in sent] == ["hello", "hi", "overview 1", "fix it"]
    assert isinstance(sent[2], HumanMessage)


async def test_each_prompt_of_a_turn_begins_with_the_former_one() -> None:
    start = [*BEFORE, ASKED]
    nudge = HumanMessage("an image", id="6")
    steps = [start, [*start, *LATER], [*start, *LATER, nudge]]
    sent = await prompts(WorkspaceContextLink(Overviews()), build_context(), *steps)
    for former, later in pairwise(sent):
        assert later[: len(former)] == former


async def test_overview_is_read_once_for_each_turn() -> None:
    overviews = Overviews()
    link = WorkspaceContextLink(overviews)
    for _ in range(2):
        await prompts(link, build_context(), [ASKED], [ASKED, *LATER])
    assert overviews.read == 2


async def test_overview_ends_the_prompt_after_a_compaction() -> None:
    context = build_context()
    context.workspace, context.workspace_before = "overview", "gone"
    [sent] = await prompts(WorkspaceContextLink(Overviews()), context, [HumanMessage("summary", id="9")])
    assert [message.content for message in sent] == ["summary", "overview"]


@pytest.mark.parametrize("text", [""])
async def test_empty_overview_changes_nothing(text: str) -> None:
    async def nothing(_: TurnRequest) -> str:
        return text

    [sent] = await prompts(WorkspaceContextLink(nothing), build_context(), [*BEFORE, ASKED])
    assert sent == [*BEFORE, ASKED]
