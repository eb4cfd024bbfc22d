"""The order of the links, their effect on a call, and the absence of links that are not configured."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from prometheus_client import CollectorRegistry

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Provider
from fleetwright_agent.config.server import Limits
from fleetwright_agent.protocol.frames import Fallback, Purpose, StreamReset, TurnFailed, TurnRequest
from fleetwright_agent.storage.sqlite.conversations.schema import FILE, SCHEMA
from fleetwright_agent.storage.sqlite.conversations.views import SqliteViewStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.telemetry.failure_reasons import ModelFailureReason
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.usage import CostAccount
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.pipeline.model.empty_replies import EmptyReplies
from fleetwright_agent.turn.pipeline.model.model_calls import ModelFailed
from fleetwright_agent.turn.pipeline.model.model_fallback import ModelFallback
from fleetwright_agent.turn.pipeline.model.prompt_repair import CONTINUE, clean_messages, withhold_results
from fleetwright_agent.turn.pipeline.model.prompt_retry import PromptRetry
from fleetwright_agent.turn.pipeline.model.prompt_size import minimum_prompt_size, prompt_size
from fleetwright_agent.turn.pipeline.model.turn_limits import RepeatLimitLink, RoundLimitLink, TokenLimitLink
from fleetwright_agent.turn.pipeline.order import model_links
from fleetwright_agent.turn.providers.factory import build_chat, portable
from fleetwright_agent.turn.providers.failures import ModelFailure
from fleetwright_agent.turn.views import Views

SECOND = {
    "name": "second",
    "baseUrl": "http://127.0.0.1:9",
    "contextWindow": 8000,
    "maxOutputTokens": 1000,
    "timeoutSeconds": 5,
}
USUAL = [
    "SystemPromptLink",
    "CompactionLink",
    "RoundLimitLink",
    "RepeatLimitLink",
    "EmptyReplies",
    "PromptRetry",
    "VisionFilter",
    "ModelCalls",
]
ALL = [
    "DeferralLink",
    *USUAL[:2],
    "RecollectionLink",
    *USUAL[2:4],
    "TypedResultLink",
    *USUAL[4:6],
    "ModelFallback",
    "ReasoningEffort",
    "VisionFilter",
    "PromptCache",
    "ModelCalls",
]
RESULT = {"skill": "s", "outputSchema": {"type": "object"}}


class ModelCalls:
    """A stub of the innermost link."""


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        pytest.param({}, USUAL, id="what is not configured is not there"),
        pytest.param(
            {
                "compaction": {"mode": "Off"},
                "limits": {"maxRepeatedCalls": 0, "maxEmptyReplies": 0, "maxMendedRequests": 0},
            },
            ["SystemPromptLink", "CompactionLink", "RoundLimitLink", "VisionFilter", "ModelCalls"],
            id="what is switched off is not there, but for what shows the views that an earlier revision made",
        ),
        pytest.param(
            {
                "results": [RESULT],
                "model": {"fallbacks": [SECOND], "promptCache": True, "reasoningEffort": "low", "vision": True},
                "memory": {"knowledge": {"enabled": True}},
                "toolSearch": {"above": 30},
            },
            ALL,
            id="everything stands in the order that links.py explains",
        ),
        pytest.param(
            {"model": {"fallbacks": [{**SECOND, "promptCache": True}]}},
            [*USUAL[:6], "ModelFallback", "VisionFilter", "PromptCache", "ModelCalls"],
            id="a fallback alone may have a cache",
        ),
        pytest.param(
            {"callerChoices": ["ReasoningEffort"]},
            [*USUAL[:6], "ReasoningEffort", "VisionFilter", "ModelCalls"],
            id="callers may say how long a model thinks of which nothing is said",
        ),
        pytest.param(
            {"limits": {"maxTurnTokens": 9}},
            ["TokenLimitLink", *USUAL[:-1], "TokenLimitLink", USUAL[-1]],
            id="a limit of tokens is before everything, and before each attempt",
        ),
        pytest.param(
            {"model": {"vision": True}}, [*USUAL[:6], "ModelCalls"], id="where all see, nobody looks for pictures"
        ),
    ],
)
async def test_model_links_have_a_fixed_order(config, tmp_path, changes, order):
    wanted, layout = config(**changes), Layout(root=tmp_path)
    async with httpx2.AsyncClient() as client:
        chats = [build_chat(endpoint, layout, client) for endpoint in (wanted.model, *wanted.model.fallbacks)]
        calls: Any = ModelCalls()
        views = Views(SqliteViewStore(Database(layout.memory / FILE, SCHEMA)))
        links = model_links(_dependencies(wanted, layout), views=views, calls=calls, chats=chats)
    assert [type(link).__name__ for link in links] == order


def _dependencies(config: AgentConfig, layout: Layout) -> TurnDependencies:
    none: Any = None
    storage: Any = SimpleNamespace(facts=None, skills=None)
    return TurnDependencies(
        config=config,
        layout=layout,
        metrics=Metrics(CollectorRegistry()),
        clock=Clock(),
        storage=storage,
        delegations=none,
        tool_cache=none,
        plugins=none,
        audit_trail=none,
        cost_accounting=none,
        tracing=none,
    )


class Chat:
    def __init__(self, name: str) -> None:
        self.endpoint = SimpleNamespace(name=name, provider=Provider.OPENAI)


def failed(reason: ModelFailureReason) -> ModelFailed:
    return ModelFailed(ModelFailure(reason, "It failed."))


def request_of(*messages: Any, emitted: list[Any] | None = None, model: Any = None) -> Any:
    turn = TurnRequest("client:default", "c", "t", "x")
    context = TurnContext(turn, (emitted if emitted is not None else []).append, {})
    runtime: Any = SimpleNamespace(context=context)
    state: Any = {"messages": list(messages)}
    return ModelRequest(model=model, messages=list(messages), tools=[], state=state, runtime=runtime)


class Models:
    """A model handler that answers with the model's name, after the failures that a test queued."""

    def __init__(self, **failures: list[ModelFailed]) -> None:
        self.failures = failures
        self.asked: list[tuple[str, float | None]] = []

    async def __call__(self, request: Any) -> Any:
        name = request.model.endpoint.name
        self.asked.append((name, request.runtime.context.patience))
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        return ModelResponse([AIMessage(f"by {name}")])


class Ages:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def three():
    metrics, clock = Metrics(CollectorRegistry()), Ages()
    chats: list[Any] = [Chat("one"), Chat("two"), Chat("three")]
    return ModelFallback(chats, metrics, monotonic=clock), metrics, clock


async def test_fallback_link_uses_the_next_model_and_reports_it(three, caplog):
    link, metrics, _ = three
    models, emitted = Models(one=[failed("model_error")], two=[failed("model_unauthorized")]), list[Any]()
    request = request_of(HumanMessage("x"), emitted=emitted)
    request.runtime.context.spoken = True
    reply = await link.around_model(request, models)
    assert reply.result[0].text == "by three"
    assert models.asked == [("one", 5.0), ("two", 5.0), ("three", None)], "only the last model gets unlimited time"
    assert emitted == [
        StreamReset("model_error"),
        Fallback("one", "two", "model_error"),
        Fallback("two", "three", "model_unauthorized"),
    ]
    labels = {"from": "one", "to": "two", "reason": "model_error"}
    assert metrics.registry.get_sample_value("fleetwright_model_fallbacks_total", labels) == 1
    assert [record.message for record in caplog.records] == ["another model takes over"] * 2


async def test_fallback_link_skips_a_failed_model_for_30_seconds(three):
    link, _, clock = three
    models = Models(one=[failed("model_error")])
    for moment in (0.0, 29.0, 31.0):
        clock.now = moment
        await link.around_model(request_of(HumanMessage("x")), models)
    assert [name for name, _ in models.asked] == ["one", "two", "two", "one"]


async def test_fallback_link_tries_all_and_reports_the_first_failure(three):
    link, _, _ = three
    for _ in range(2):
        models = Models(one=[failed("model_timeout")], two=[failed("model_error")], three=[failed("model_unpaid")])
        with pytest.raises(ModelFailed) as told:
            await link.around_model(request_of(HumanMessage("x")), models)
        assert told.value.reason == "model_timeout"
        assert len(models.asked) == 3


async def test_fallback_link_skips_fallbacks_for_invalid_requests(three):
    link, _, _ = three
    models = Models(one=[failed("model_context_overflow")])
    with pytest.raises(ModelFailed):
        await link.around_model(request_of(HumanMessage("x")), models)
    assert len(models.asked) == 1


def asked_for(args: dict[str, Any], number: int, *, result: str = "same", tool: str = "look") -> list[Any]:
    call = {"name": tool, "args": args, "id": f"c{number}", "type": "tool_call"}
    return [AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id=f"c{number}", name=tool)]


def rounds(count: int, **changes: Any) -> list[Any]:
    return [message for number in range(count) for message in asked_for({"a": 1}, number, **changes)]


def different(count: int) -> list[Any]:
    return [message for number in range(count) for message in asked_for({"a": 1}, number, result=str(number))]


MANY_AT_ONCE = [
    AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"c{n}", "type": "tool_call"} for n in range(4)]),
    *(ToolMessage("same", tool_call_id=f"c{n}", name="look") for n in range(4)),
]


@pytest.mark.parametrize(
    ("turn", "outcome"),
    [
        pytest.param(rounds(2), "", id="twice is no matter"),
        pytest.param(rounds(3), "nudged", id="at the third time the model is told"),
        pytest.param([*rounds(3), *different(1)], "", id="it is told once"),
        pytest.param(rounds(4), "", id="and not again at the fourth"),
        pytest.param(MANY_AT_ONCE, "nudged", id="four at once are told too"),
        pytest.param(rounds(6), "ended", id="the sixth time ends the turn"),
        pytest.param(different(9), "", id="a call that finds something new is no repeat"),
        pytest.param([*rounds(5), HumanMessage("Again."), *rounds(1)], "", id="another message begins anew"),
    ],
)
async def test_repeat_limit_link_nudges_and_then_ends_the_turn(turn, outcome):
    metrics, sent = Metrics(CollectorRegistry()), list[Any]()

    async def answer(request: Any) -> Any:
        sent.extend(request.messages)
        return ModelResponse([AIMessage("done")])

    link = RepeatLimitLink(Limits().max_repeated_calls, metrics)
    request = request_of(HumanMessage("Look."), *turn)
    if outcome == "ended":
        with pytest.raises(TurnFailed) as ended:
            await link.around_model(request, answer)
        assert ended.value.reason == "repeated_tool_call"
        assert ended.value.details == {"repeated": {"tool": "look", "times": 6}}
    else:
        await link.around_model(request, answer)
        noted = "Do not repeat that call" in sent[-1].text
        assert noted is (outcome == "nudged")
    for each in ("nudged", "ended"):
        counted = metrics.registry.get_sample_value("fleetwright_repeated_tool_calls_total", {"outcome": each})
        assert (counted or 0) == (each == outcome)


async def test_round_limit_link_limits_model_calls(config):
    link = RoundLimitLink(Limits.model_validate({"maxModelCalls": 3}).most_model_calls)
    with pytest.raises(TurnFailed, match="its limit of 3 model calls"):
        await link.around_model(request_of(HumanMessage("x"), *different(3)), Models())


@pytest.mark.parametrize(("used", "ends"), [(0, False), (99, False), (100, True), (250, True)])
async def test_token_limit_link_ends_a_turn_at_the_limit(used, ends):
    request, link = request_of(HumanMessage("x")), TokenLimitLink(100)
    request.runtime.context.usage.tokens = used

    async def answer(_: Any) -> Any:
        return AIMessage("Done.")

    if not ends:
        assert (await link.around_model(request, answer)).text == "Done."
        return
    with pytest.raises(TurnFailed, match="its limit of 100 tokens for one message") as ended:
        await link.around_model(request, answer)
    assert (ended.value.reason, ended.value.details) == ("token_limit", {"tokens": {"used": used, "limit": 100}})


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        pytest.param({}, 100, id="a hundred"),
        pytest.param({"maxToolCalls": 500}, 520, id="more where more calls of tools are allowed"),
        pytest.param({"maxToolCalls": 500, "maxModelCalls": 7}, 7, id="what is declared"),
    ],
)
def test_model_call_limit_leaves_room_for_the_tool_call_limit(limits, most):
    assert Limits.model_validate(limits).most_model_calls == most


@pytest.mark.parametrize(
    ("turn", "silent", "asked"),
    [
        pytest.param(rounds(1), 2, 2, id="asked to go on until it speaks"),
        pytest.param(rounds(1), 9, 3, id="three times at most"),
        pytest.param([], 9, 0, id="a silent answer to the caller is an answer"),
    ],
)
async def test_empty_replies_link_retries_up_to_three_times(turn, silent, asked):
    heard = list[int]()

    async def answer(request: Any) -> Any:
        heard.append(sum(message.text == CONTINUE for message in request.messages))
        return ModelResponse([AIMessage("" if len(heard) <= silent else "Well.")])

    await EmptyReplies(3, Metrics(CollectorRegistry())).around_model(request_of(HumanMessage("x"), *turn), answer)
    assert heard == list(range(asked + 1))


@pytest.mark.parametrize(
    ("messages", "reads", "outcome"),
    [
        pytest.param(
            [HumanMessage("a\x07b")], lambda texts: "ab" in texts, "answered", id="characters that are refused go"
        ),
        pytest.param(
            rounds(1, result="poison"),
            lambda texts: not any("poison" in text for text in texts),
            "answered",
            id="a result that is refused is withheld",
        ),
        pytest.param([HumanMessage("fine")], lambda _: False, "refused", id="what cannot be mended fails as it did"),
    ],
)
async def test_prompt_retry_removes_rejected_content(messages, reads, outcome):
    metrics, calls = Metrics(CollectorRegistry()), list[int]()

    async def answer(request: Any) -> Any:
        calls.append(1)
        if reads([message.text for message in request.messages]):
            return ModelResponse([AIMessage("done")])
        raise failed("model_refused_request")

    work = PromptRetry(2, metrics).around_model(request_of(*messages), answer)
    if outcome == "answered":
        await work
        assert len(calls) > 1
    else:
        with pytest.raises(ModelFailed):
            await work
        assert len(calls) == 1, "the link does not resend the same request"
    counted = metrics.registry.get_sample_value("fleetwright_llm_mended_requests_total", {"outcome": outcome})
    assert counted == 1


def test_clean_messages_keeps_all_messages_of_callers():
    torn = [HumanMessage("one\x00"), asked_for({"a": "\x01b"}, 1)[0], HumanMessage("two"), AIMessage("")]
    mended = clean_messages(torn)
    assert [message.type for message in mended] == ["human", "ai", "tool", "human"]
    assert [message.text for message in mended if message.type == "human"] == ["one", "two"]
    assert mended[1].tool_calls[0]["args"] == {"a": "b"}
    assert clean_messages([HumanMessage("x"), AIMessage("y")])[-1].text == CONTINUE
    assert withhold_results(torn) == torn


def test_portable_reduces_foreign_content_blocks_to_text():
    blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"}]
    said = AIMessage(blocks, response_metadata={"model_provider": "anthropic"})
    assert portable([said], Provider.ANTHROPIC) == [said]
    assert portable([said], Provider.OPENAI)[0].content == "Hi"


async def test_budget_downgrade_skips_a_model_that_failed(config, talking, model_port):
    address = f"http://127.0.0.1:{model_port}/v1"
    downgrade = {"at": "0.0001", "model": {"name": "small", "contextWindow": 8000}}
    wanted = config(
        model={"baseUrl": address, "retries": 0, "fallbacks": [{**SECOND, "baseUrl": address, "price": None}]},
        budgets=[{"period": "Month", "tokens": 1_000_000, "downgrade": downgrade}],
    )
    async with talking(wanted) as talk:
        await talk.say("Hello")
        said = await talk.say("Hello there [[fail:503@small]]")
    assert said.failure is None
    (fallback,) = said.of(Fallback)
    assert (fallback.failed, fallback.following) == ("small", "second")
    assert talk.count("llm_calls_total", model="small", outcome="model_error") == 1
    assert talk.count("llm_calls_total", model="second", outcome="ok") == 1


def test_minimum_prompt_size_depends_on_no_tool_and_no_message():
    declared: Any = {"name": "look", "description": "Looks. " * 400}
    system = SystemMessage("You are the desk. " * 100)
    bare = request_of().override(system_message=system)
    full = request_of(HumanMessage("Hello " * 400)).override(system_message=system, tools=[declared])
    assert 0 < minimum_prompt_size(bare) == minimum_prompt_size(full) <= prompt_size(bare) // 2


DEAR = {**SECOND, "maxOutputTokens": 6000}


@pytest.mark.parametrize(
    ("model", "more", "metadata", "exhausted"),
    [
        pytest.param({"maxOutputTokens": 6000}, {}, {}, True, id="the own model"),
        pytest.param({"fallbacks": [DEAR]}, {"callerChoices": ["Model"]}, {"model": "second"}, False, id="a choice"),
        pytest.param({"retries": 0, "fallbacks": [DEAR]}, {}, {}, False, id="a fallback"),
        pytest.param({"maxOutputTokens": 6000}, {"at": "0.9"}, {}, False, id="a cheaper model may follow"),
        pytest.param({"maxOutputTokens": 6000}, {"at": "0.1"}, {}, True, id="the cheaper model"),
    ],
)
async def test_budget_is_exhausted_only_by_calls_that_begin_tasks(config, talking, model, more, metadata, exhausted):
    """A refused call of a model with which not every task begins says nothing about the next task."""
    at = {key: value for key, value in more.items() if key == "at"}
    downgrade = {"downgrade": {**at, "model": {"name": "small", "contextWindow": 8000}}} if at else {}
    choices = {key: value for key, value in more.items() if key != "at"}
    wanted = config(model=model, budgets=[{"period": "Month", "tokens": 10_000, **downgrade}], **choices)
    usage: Any = {"input_tokens": 5000, "output_tokens": 0, "total_tokens": 5000}
    async with talking(wanted) as talk:
        await talk.accounting.look()
        account = CostAccount("offline", None, Purpose.ANSWER)
        talk.accounting.charge(AIMessage("", usage_metadata=usage), account, TurnRequest("client:a", "c", "t", "x"))
        said = await talk.say("Hello [[fail:503@offline]]", metadata=metadata)
        assert said.failure is not None
        assert said.failure.reason == "budget_exceeded"
        assert [each["exhausted"] for each in talk.accounting.report()] == [exhausted]


async def test_fallback_replaces_a_long_retry_wait(config, talking, model_port):
    second = {**SECOND, "baseUrl": f"http://127.0.0.1:{model_port}/v1", "price": None}
    async with talking(config(model={"fallbacks": [second]})) as talk:
        said = await talk.say("Hello there [[fail:503@offline]]")
        again = await talk.say("Hello again")
    assert said.failure is None
    (fallback,) = said.of(Fallback)
    assert (fallback.failed, fallback.following, fallback.reason) == ("offline", "second", "model_error")
    assert all(wait <= 5 for wait in talk.waits)
    assert not again.of(Fallback), "the failed model is paused"
    assert talk.count("llm_calls_total", model="second", outcome="ok") == 2
    assert talk.count("llm_unpriced_calls_total", model="second") == 2


async def test_summary_on_anthropic_keeps_the_tool_choice_of_the_turn(config, tmp_path):
    """A different `tool_choice` would invalidate the cached conversation at Anthropic."""
    endpoint = config(model={"provider": "Anthropic"}).model
    tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}]
    async with httpx2.AsyncClient() as client:
        chat: Any = build_chat(endpoint, Layout(root=tmp_path), client)
        turn, summary = chat.bind_tools(tools).kwargs, chat.bind_tools(tools, tool_choice="none").kwargs
    assert summary == turn
