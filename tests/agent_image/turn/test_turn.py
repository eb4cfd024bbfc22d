"""Complete turns, from a caller's message to the answer, with a real model server, real tools and a real disk."""

import sqlite3
from decimal import Decimal

import pytest

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import (
    CompactionEnd,
    Reasoning,
    StreamReset,
    Text,
    ToolEnd,
    ToolStart,
    TurnRequest,
    Usage,
)
from fleetwright_agent.turn.context import TurnContext

HELLO = TurnRequest("client:default", "c", "t", "Hi")


async def test_turn_streams_its_answer_and_reports_usage(config, talking):
    async with talking(config()) as talk:
        said = await talk.say("Good morning to all of you")
    assert "".join(frame.text for frame in said.of(Text)) == said.answer
    (usage,) = said.of(Usage)
    assert usage.input_tokens > 0
    assert usage.cost_usd == Decimal(usage.input_tokens + 2 * usage.output_tokens) / 1_000_000 - Decimal(
        "0.9"
    ) * usage.cache_read_tokens / Decimal(1_000_000)
    assert talk.count("llm_cost_usd_total", model="offline") == pytest.approx(float(usage.cost_usd))


SMILE = "\N{GRINNING FACE}"
HALVES = ("\ud83d", "\ude00")


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        pytest.param(("Hi ", *HALVES, "!"), f"Hi {SMILE}!", id="a character that is cut in two is told whole"),
        pytest.param((f"Hi {HALVES[0]}", f"{HALVES[1]}!"), f"Hi {SMILE}!", id="so is one between two words"),
        pytest.param(("Hi ", HALVES[0], "!"), "Hi \ufffd!", id="a first half alone is replaced"),
        pytest.param(("Hi ", HALVES[1], "!"), "Hi \ufffd!", id="so is a second one"),
        pytest.param(("Hi", HALVES[0]), "Hi", id="of a half at the end nothing is told"),
    ],
)
async def test_turn_joins_surrogate_pairs_split_across_chunks(config, talking, saying, pieces, answer):
    thoughts = [{"reasoning_content": piece} for piece in pieces]
    with saying(*thoughts, *({"content": piece} for piece in pieces)) as port:
        async with talking(config(model={"baseUrl": f"http://127.0.0.1:{port}/v1"})) as talk:
            said = await talk.say("Smile")
            again = await talk.say("Smile again")
    for turn in (said, again):
        assert turn.failure is None
        assert turn.answer == answer
        assert "".join(frame.text for frame in turn.of(Text)) == answer
        assert "".join(frame.text for frame in turn.of(Reasoning)) == answer


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{"a": "\\ud83d"}', id="half of a character"),
        pytest.param('{"a": NaN}', id="what is no number"),
        pytest.param('{"a": 1e999}', id="a number beyond all numbers"),
        pytest.param('{"a": ' * 30 + "1" + "}" * 30, id="more levels than can be told"),
    ],
)
async def test_turn_refuses_tool_arguments_that_are_not_serialisable(config, talking, saying, arguments):
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "x", "arguments": arguments}}
    with saying({"tool_calls": [call]}) as port:
        async with talking(config(model={"baseUrl": f"http://127.0.0.1:{port}/v1"})) as talk:
            said = await talk.say("Call it")
    assert said.failure.reason == "model_malformed_tool_call"


async def test_conversation_survives_a_restart(config, talking):
    async with talking(config()) as talk:
        await talk.say("My dog is called Rex.")
    async with talking(config()) as talk:
        said = await talk.say("What is my dog called?")
    assert said.answer == "You told me: My dog is called Rex."


async def test_conversation_knows_earlier_sessions_of_its_owner(config, talking):
    async with talking(config()) as talk:
        await talk.say("My dog is called Rex.", context="c1")
        said = await talk.say("What is my dog called?", context="c2")
    assert "Rex" in said.answer


async def test_prompt_never_contains_text_of_another_caller(config, talking):
    async with talking(config()) as talk:
        await talk.say("My dog is called Rex.", owner="client:a", context="c1")
        same_context = await talk.say("What is my dog called?", owner="client:b", context="c1")
        other_context = await talk.say("What is my dog called?", owner="client:b", context="c2")
    assert "Rex" not in same_context.answer
    assert "Rex" not in other_context.answer


async def test_prompt_of_an_agent_caller_is_separate_per_context(config, talking):
    async with talking(config()) as talk:
        await talk.say("My dog is called Rex.", owner="agent:shop/front", context="for-one")
        other = await talk.say("What is my dog called?", owner="agent:shop/front", context="for-another")
        again = await talk.say("What is my dog called?", owner="agent:shop/front", context="for-one")
    assert "Rex" not in other.answer
    assert "Rex" in again.answer


async def test_turn_reads_a_skill_and_calls_a_tool(config, talking, tmp_path, orders_port):
    folder = Layout(root=tmp_path).skill("refunds")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: refunds\ndescription: d\n---\nBroken goods: in full.")
    wanted = config(
        skills=[{"name": "refunds", "description": "How refunds are decided", "digest": "d"}],
        mcpServers=[{"name": "orders", "url": f"http://127.0.0.1:{orders_port}/mcp"}],
    )
    async with talking(wanted) as talk:
        said = await talk.say("Load the refunds skill, then look up order A-1002.")
    assert [frame.name for frame in said.of(ToolStart)] == ["load_skill", "orders__look_up_order"]
    assert all(frame.ok for frame in said.of(ToolEnd))
    assert "in full" in said.answer
    assert "39.50 USD" in said.answer
    assert talk.count("tool_calls_total", tool="orders__look_up_order", outcome="ok") == 1


@pytest.mark.parametrize(
    ("server", "offered"),
    [
        pytest.param({}, {"look_up_order", "refund_order"}, id="without a list every tool is offered"),
        pytest.param({"allow": ["look_up_order"]}, {"look_up_order"}, id="an allow-list leaves the rest out"),
        pytest.param({"deny": ["refund_order"]}, {"look_up_order"}, id="a denied tool is not offered"),
        pytest.param(
            {"allow": ["refund_order"], "deny": ["refund_order"]}, set(), id="what is denied stays denied when allowed"
        ),
    ],
)
async def test_mcp_tools_are_filtered_by_allow_and_deny_lists(config, talking, orders_port, server, offered):
    url = f"http://127.0.0.1:{orders_port}/mcp"
    async with talking(config(mcpServers=[{"name": "orders", "url": url, **server}])) as talk:
        context = TurnContext(HELLO, lambda _: None, {})
        found = await talk.turn.registry.tools(context)
    assert {name.removeprefix("orders__") for name in found} == offered | {"recall_archive"}
    assert not context.unreachable


async def test_denied_human_tool_is_not_offered(config, talking):
    names = []
    for deny in ([], ["ask_human"]):
        async with talking(config(askHuman=True, enforcement={"deny": deny})) as talk:
            names.append(set(await talk.turn.registry.tools(TurnContext(HELLO, lambda _: None, {}))))
    assert names[0] - names[1] == {"ask_human"}


async def test_unreachable_server_removes_only_its_own_tools(config, talking, orders_port):
    servers = [
        {"name": "gone", "url": "http://127.0.0.1:9/mcp"},
        {"name": "orders", "url": f"http://127.0.0.1:{orders_port}/mcp"},
    ]
    async with talking(config(mcpServers=servers)) as talk:
        said = await talk.say("Look up order A-1001.")
    assert "two oak chairs" in said.answer


async def test_tool_error_is_a_result_of_the_turn(config, talking, orders_port):
    url = f"http://127.0.0.1:{orders_port}/mcp"
    async with talking(config(mcpServers=[{"name": "orders", "url": url}])) as talk:
        said = await talk.say("Look up order B-77.")
    assert "not in the book" in said.answer
    assert talk.count("tool_calls_total", tool="orders__look_up_order", outcome="error") == 1


async def test_tool_call_limit_applies_to_a_turn(config, talking, orders_port):
    url = f"http://127.0.0.1:{orders_port}/mcp"
    wanted = config(mcpServers=[{"name": "orders", "url": url}], limits={"maxToolCalls": 1})
    async with talking(wanted) as talk:
        said = await talk.say("Look up order A-1001; look up order A-1002.")
    assert "limit of 1 tool calls is reached" in said.answer
    assert "39.50" not in said.answer


@pytest.mark.parametrize(
    ("marker", "reason", "attempts"),
    [
        pytest.param("401", "model_unauthorized", 1, id="a refused key fails at once"),
        pytest.param("404", "model_not_found", 1, id="an unknown model fails at once"),
        pytest.param("429", "model_rate_limited", 3, id="an exhausted rate limit fails after three attempts"),
        pytest.param("500", "model_error", 3, id="a failing server fails after three attempts"),
        pytest.param("malformed", "model_malformed_tool_call", 3, id="half a tool call is never run"),
        pytest.param("overflow", "model_context_overflow", 1, id="an overflow that nothing can mend is said"),
        pytest.param("cut", "model_unreachable", 3, id="a stream that breaks every time fails"),
        pytest.param("empty", "model_empty_answer", 0, id="an empty answer is no answer"),
    ],
)
async def test_r4_failing_model_fails_the_turn_with_a_reason(config, talking, marker, reason, attempts):
    async with talking(config()) as talk:
        said = await talk.say(f"Hello there my friend [[fail:{marker}]]")
    assert said.failure is not None
    assert said.failure.reason == reason
    assert "offline" not in said.failure.message
    assert talk.count("llm_calls_total", model="offline", outcome=reason) == attempts


async def test_missing_model_key_is_named_and_used_once_it_exists(config, talking, tmp_path):
    wanted = config(model={"apiKeyFile": "secrets/provider/api-key"})
    async with talking(wanted) as talk:
        said = await talk.say("Hello there")
        assert said.failure is not None
        assert said.failure.reason == "model_key_missing"
        path = Layout(root=tmp_path).secret("secrets/provider/api-key")
        path.parent.mkdir(parents=True)
        path.write_text("k")
        assert (await talk.say("Hello there")).failure is None


async def test_r4_hanging_model_fails_at_its_timeout(config, talking):
    async with talking(config(model={"timeoutSeconds": 1})) as talk:
        said = await talk.say("Hello [[fail:hang]]")
    assert said.failure is not None
    assert said.failure.reason == "model_timeout"


async def test_broken_model_stream_is_retracted_and_retried(config, talking):
    async with talking(config()) as talk:
        said = await talk.say("Hello my dear friend [[fail:cut*1]]")
    (reset,) = said.of(StreamReset)
    after = said.frames[said.frames.index(reset) :]
    assert "".join(frame.text for frame in after if isinstance(frame, Text)) == said.answer


async def test_conversation_continues_after_a_failed_turn(config, talking):
    async with talking(config()) as talk:
        await talk.say("My dog is called Rex.")
        await talk.say("Hello [[fail:500]]")
        said = await talk.say("What is my dog called?")
    assert "Rex" in said.answer


async def test_compaction_keeps_early_facts_of_a_long_conversation(config, talking):
    policy = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
    async with talking(config(compaction=policy)) as talk:
        await talk.say("My customer number is C-7741.")
        for turn in range(6):
            await talk.say(f"Tell me a story, number {turn}. [[long:250]]")
        said = await talk.say("What is my customer number?")
        assert "C-7741" in said.answer
        done = talk.count("compactions_total", trigger="tokens", method="summary", outcome="ok")
        assert done >= 1
        assert talk.count("compaction_tokens_total", phase="after") < talk.count(
            "compaction_tokens_total", phase="before"
        )
        assert talk.count("compaction_cost_usd_total") > 0


async def test_compacted_view_survives_a_restart(config, talking):
    policy = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
    async with talking(config(compaction=policy)) as talk:
        await talk.say("My customer number is C-7741.")
        for turn in range(6):
            await talk.say(f"Tell me a story, number {turn}. [[long:250]]")
    async with talking(config(compaction=policy)) as talk:
        said = await talk.say("What is my customer number?")
        assert "C-7741" in said.answer
        assert said.of(Usage)[0].input_tokens < 2500


@pytest.mark.parametrize(
    ("mode", "outcome", "happened"),
    [
        pytest.param("Observe", "observed", True, id="observing counts what would have happened"),
        pytest.param("Off", "observed", False, id="off does nothing"),
    ],
)
async def test_compaction_in_observe_or_off_mode_changes_nothing(config, talking, mode, outcome, happened):
    policy = {"mode": mode, "trigger": {"tokens": 1500}, "keep": {"messages": 2}}
    async with talking(config(compaction=policy)) as talk:
        for turn in range(4):
            said = await talk.say(f"Tell me a story, number {turn}. [[long:250]]")
        assert not said.of(CompactionEnd)
        assert (talk.count("compactions_total", trigger="tokens", method="none", outcome=outcome) > 0) is happened


async def test_overflow_is_recovered_by_one_compaction(config, talking):
    async with talking(config(compaction={"keep": {"messages": 2}})) as talk:
        for turn in range(4):
            await talk.say(f"Tell me a story, number {turn}. [[long:250]]")
        said = await talk.say("And now the end of it [[fail:overflow*1]]")
        assert said.failure is None
        assert talk.count("overflow_recoveries_total", outcome="recovered") == 1
        assert talk.count("compactions_total", trigger="overflow", method="transcript", outcome="ok") == 1


async def test_unstorable_conversation_fails_the_turn(config, talking, tmp_path):
    database = Layout(root=tmp_path).memory / "conversations.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"garbage" * 1000)
    async with talking(config()) as talk:
        said = await talk.say("Hello")
    assert said.failure is not None
    assert said.failure.reason == "storage"
    assert "conversations.db" not in said.failure.message


async def test_conversation_database_failure_fails_the_running_turn(config, talking, tmp_path):
    async with talking(config()) as talk:
        await talk.say("Hello")
        with sqlite3.connect(Layout(root=tmp_path).memory / "conversations.db") as other:
            other.execute("DROP TABLE messages")
        other.close()
        said = await talk.say("Hello again")
    assert said.failure is not None
    assert said.failure.reason == "storage"


async def test_malformed_tool_calls_are_charged_and_reported(config, talking):
    async with talking(config()) as talk:
        said = await talk.say("Hello there my friend [[fail:malformed]]")
        usages = said.of(Usage)
        assert len(usages) == 3
        spent = talk.count("llm_cost_usd_total", model="offline")
    assert spent == pytest.approx(float(sum(usage.cost_usd for usage in usages)))
    assert spent > 0


async def test_summary_is_counted_as_a_model_call(config, talking):
    policy = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
    async with talking(config(compaction=policy)) as talk:
        calls = 0
        for turn in range(6):
            calls += len((await talk.say(f"Tell me a story, number {turn}. [[long:250]]")).of(Usage))
        assert talk.count("compactions_total", trigger="tokens", method="summary", outcome="ok") >= 1
        assert talk.count("llm_calls_total", model="offline", outcome="ok") == calls
