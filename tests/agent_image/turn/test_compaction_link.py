"""The compaction link, on a real disk with a scripted model: compactions, pauses and metrics."""

import pytest
from tests.bench.compaction import summarisers
from tests.bench.compaction.fixtures import Call, Conversation, Turn
from tests.bench.compaction.ours import ours, overflow
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.scripted import Script

from fleetwright_agent.protocol.frames import CompactionEnd, CompactionStart, Purpose

LONG = "row\n" * 5000


def talk(turns, *, calls=(), answer="fine " * 200):
    return Conversation([Turn(f"question {n} " + "so " * 100, list(calls), answer) for n in range(turns)])


def script_of(conversation, summarise=summarisers.extractive, **changes):
    return Script(conversation, Provider(**changes), summarise)


EARLY = {"trigger": {"tokens": 3000}, "keep": {"messages": 4}}


async def test_compaction_failures_open_the_breaker_until_a_message():
    calls = [Call("look", {"n": 1}, "word " * 40)] * 12
    script = script_of(talk(12, calls=calls), summarisers.failing)
    async with ours(script, EARLY) as system:
        tried = []
        for _ in range(12):
            before = script.provider.summaries
            await system.play(1)
            tried.append(script.provider.summaries - before)
        first = next(i for i, n in enumerate(tried) if n)
        assert tried[first] == 3
        assert set(tried[first + 1 :]) == {1}
        assert system.count("compaction_failures_total", reason="model_error") == sum(tried)
        assert system.count("compaction_breaker_open") == 1
        assert not system.failures
        script.summarise = summarisers.extractive
        script.turn -= 1
        await system.play(1)
        assert system.count("compaction_breaker_open") == 0
        assert system.compactions() == 1


@pytest.mark.parametrize(
    ("summarise", "reason"),
    [
        pytest.param(summarisers.empty, "empty", id="empty"),
        pytest.param(summarisers.inflating, "inflated", id="longer than it may be"),
    ],
)
async def test_useless_summary_is_charged_counted_and_discarded(summarise, reason):
    script = script_of(talk(14), summarise)
    policy = {**EARLY, "summary": {"maxTokens": 200}}
    async with ours(script, policy, price={"inputPerMillion": "1", "outputPerMillion": "1"}) as system:
        await system.play()
        assert system.count("compaction_failures_total", reason=reason) > 0
        assert system.count("compaction_cost_usd_total") > 0
        assert await system.view() is None
        assert script.provider.breaks == 0


async def test_summary_that_does_not_fit_into_a_budget_is_not_requested():
    script = script_of(talk(14))
    policy = {**EARLY, "summary": {"maxTokens": 600_000}}
    async with ours(script, policy, budgets=[{"period": "Month", "tokens": 500_000}]) as system:
        await system.play()
        assert system.count("compaction_failures_total", reason="budget") > 0
        assert await system.view() is None
        assert not system.failures
    assert script.provider.summaries == 0


async def test_summary_by_the_main_model_reuses_the_cached_prefix():
    script = script_of(talk(14, calls=[Call("look", {}, "x")]))
    async with ours(script, EARLY) as system:
        await system.play()
        summary = next(usage for usage in system.spent() if usage.purpose is Purpose.SUMMARY)
    assert summary.cache_read_tokens > 0.7 * summary.input_tokens


@pytest.mark.parametrize(
    ("idle", "model"),
    [
        pytest.param(1.0, "scripted", id="on a warm cache the agent's own"),
        pytest.param(301.0, "small", id="on a cold one the other"),
    ],
)
async def test_summary_model_depends_on_the_cache(idle, model):
    script = script_of(talk(14))
    other = {"name": "small", "contextWindow": 100_000}
    async with ours(script, EARLY, auxiliary=other) as system:
        for _ in range(14):
            await system.say(script.ask(), idle=idle)
        written = {usage.model for usage in system.spent() if usage.purpose is Purpose.SUMMARY}
    assert written == {model}


async def test_summary_is_written_by_the_model_that_answered_last():
    """The cheaper model of a budget has the prompt in its cache, so it also writes the summary."""
    script = script_of(talk(14))
    downgrade = {"at": "0.0001", "model": {"name": "small", "contextWindow": 100_000}}
    budget = {"period": "Month", "tokens": 10_000_000, "downgrade": downgrade}
    async with ours(script, EARLY, budgets=[budget]) as system:
        await system.play()
        spent = system.spent()
        summaries = [usage for usage in spent if usage.purpose is Purpose.SUMMARY]
    assert {usage.model for usage in summaries} == {"small"}
    assert {usage.model for usage in spent if usage.purpose is Purpose.ANSWER} == {"scripted", "small"}
    assert summaries[0].cache_read_tokens > 0.7 * summaries[0].input_tokens, "the summary uses the cached prefix"


async def test_estimated_usage_after_a_compaction_is_of_the_new_prompt():
    """The estimate must not use the larger prompt size of an earlier answer that the prompt still shows."""
    script = script_of(talk(16))
    async with ours(script, EARLY, budgets=[{"period": "Month", "tokens": 10_000_000}]) as system:
        while not system.compactions():
            await system.play(1)
        script.silent = True
        await system.play(1)
        assert system.count("llm_estimated_calls_total", model="scripted") == 1
        newest = system.spent()[-1]
    assert newest.input_tokens < 2500


async def test_summary_model_is_the_cheaper_one_despite_a_warm_cache():
    script = script_of(talk(14))
    price = {"inputPerMillion": "10", "outputPerMillion": "50", "cachedInputPerMillion": "5"}
    small = {"name": "small", "contextWindow": 100_000, "price": {"inputPerMillion": "0.1", "outputPerMillion": "0.4"}}
    async with ours(script, EARLY, auxiliary=small, price=price) as system:
        await system.play()
        assert {usage.model for usage in system.spent() if usage.purpose is Purpose.SUMMARY} == {"small"}
        assert system.count("llm_calls_total", model="small", outcome="ok") == script.provider.summaries


async def test_summary_by_a_small_model_is_made_in_pieces():
    script = script_of(talk(14))
    small = {"name": "small", "contextWindow": 2500}
    async with ours(script, {**EARLY, "summary": {"maxTokens": 800}}, auxiliary=small) as system:
        for _ in range(14):
            await system.say(script.ask(), idle=1000)
        assert system.count("compactions_total", trigger="tokens", method="transcript", outcome="ok") > 0
        assert script.provider.summaries > system.compactions()


async def test_summary_falls_back_to_the_main_model_if_too_long():
    script = script_of(talk(14))
    small = {"name": "small", "contextWindow": 1400}
    async with ours(script, {**EARLY, "summary": {"maxTokens": 400}}, auxiliary=small) as system:
        for _ in range(14):
            await system.say(script.ask(), idle=1000)
        assert {usage.model for usage in system.spent() if usage.purpose is Purpose.SUMMARY} == {"scripted"}
        assert system.compactions() > 0


async def test_cold_cache_prunes_old_results():
    script = script_of(talk(14, calls=[Call("look", {"n": 1}, LONG)], answer="ok"))
    async with ours(script, {"keep": {"messages": 4}, "trigger": {"tokens": 1_000_000}}) as system:
        for number in range(13):
            await system.say(script.ask(), idle=60)
            assert system.compactions(pruned=True) == 0, number
        await system.say(script.ask(), idle=400)
        assert system.count("compactions_total", trigger="cold", method="prune", outcome="ok") == 1
        assert system.count("compaction_cache_rewrite_tokens_total") > 0
        view = await system.view()
        assert len(view.pruned) >= 10
        assert "are left out here" in "\n".join(script.prompt)
        (end,) = (frame for frame in system.frames if isinstance(frame, CompactionEnd))
        assert (end.outcome, end.method) == ("ok", "prune")


async def test_repeated_call_after_compaction_is_counted():
    script = script_of(talk(12, calls=[Call("look", {"n": 1}, "same " * 30)]))
    async with ours(script, EARLY) as system:
        await system.play()
        assert system.compactions() >= 1
        assert system.count("refetch_after_compaction_total", tool="look") >= 1


async def test_compaction_frames_report_start_end_and_payback():
    script = script_of(talk(26))
    async with ours(script, EARLY) as system:
        await system.play()
        starts = [frame for frame in system.frames if isinstance(frame, CompactionStart)]
        ends = [frame for frame in system.frames if isinstance(frame, CompactionEnd)]
        assert len(starts) == len(ends) == system.compactions() >= 2
        assert all(end.tokens_after < end.tokens_before for end in ends)
        assert all(end.payback_calls >= 1 and end.cheapest_trigger > 1000 for end in ends)
        assert system.count("prompt_tokens_since_compaction_count") == len(ends)
        # The metric counts all prompts except those after the last compaction.
        assert 0 < system.count("prompt_tokens_since_compaction_sum") < script.provider.fresh + script.provider.cached


async def test_pinned_skill_is_read_from_its_folder_at_compaction():
    text = {"refunds": "Broken goods: in full."}
    calls = [Call("load_skill", {"name": "refunds"}, "<skill_content>old</skill_content>")]
    conversation = talk(12)
    conversation.turns[0].calls = calls
    script = script_of(conversation)
    async with ours(script, EARLY, read_skill=text.get) as system:
        await system.play(11)
        assert "Skill refunds: Broken goods: in full." in (await system.view()).pinned
        text["refunds"] = "Broken goods: half."
        await system.play(1)
        assert "Skill refunds: Broken goods: half." in "\n".join(script.prompt)
        assert system.count("compaction_pins_missing_total") == 0
        del text["refunds"]
        script.turn -= 1
        await system.play(1)
        assert system.count("compaction_pins_missing_total") == 1


async def test_overflow_compacts_once_and_cuts_the_largest_result():
    conversation = talk(3, calls=[Call("look", {"n": 1}, LONG * 2)])
    script = script_of(conversation, window=12_000)
    async with ours(script, {"keep": {"messages": 20}}, window=1_000_000) as system:
        await system.play()
        assert not system.failures
        assert system.count("overflow_recoveries_total", outcome="recovered") >= 1
        assert system.count("compactions_total", trigger="overflow", method="prune", outcome="ok") >= 1


@pytest.mark.parametrize(
    ("summarise", "delay"),
    [
        pytest.param(summarisers.failing, 0.0, id="fails"),
        pytest.param(summarisers.extractive, 3.0, id="takes too long"),
    ],
)
async def test_overflow_recovery_extracts_if_the_summary_is_unusable(summarise, delay):
    script = script_of(talk(30), summarise, window=6000)
    script.delay = delay
    async with ours(script, {"keep": {"messages": 4}, "summary": {"timeoutSeconds": 1}}, window=1_000_000) as system:
        await system.play()
        assert not system.failures
        assert system.count("compactions_total", trigger="overflow", method="extract", outcome="ok") >= 1


def _refusing(_):
    raise overflow()


async def test_summary_request_that_is_too_long_counts_as_failed():
    script = script_of(talk(14), _refusing)
    async with ours(script, EARLY) as system:
        await system.play()
        assert system.count("compaction_failures_total", reason="too_long") >= 1
        # Each failure follows two attempts: one with the prompt and one with the transcript.
        assert script.provider.summaries == 2 * system.count("compaction_failures_total", reason="too_long")
        assert not system.failures


async def test_request_cut_from_a_long_turn_is_shown_after_the_tail():
    """A request that compaction cuts away in a long turn is shown verbatim after the tail."""
    calls = [Call("look", {"n": n}, "word " * 100) for n in range(40)]
    conversation = Conversation([Turn("Count the chairs, all of them.", calls, "forty")])
    script = script_of(conversation)
    async with ours(script, EARLY) as system:
        await system.play()
        assert system.compactions() >= 1
        view = await system.view()
        assert view.request
        told = [line for line in script.prompt if line.startswith("human: ")]
        assert told[-1].strip() == "human: Count the chairs, all of them."
        assert not system.failures


async def test_older_request_is_never_shown_after_a_newer_one():
    calls = [Call("look", {"n": n}, "word " * 100) for n in range(40)] + [Call("look", {"n": 41}, LONG)]
    after = [Turn(f"thanks {n}", [], "fine") for n in range(6)]
    script = script_of(Conversation([Turn("Count the chairs, all of them.", calls, "forty"), *after]))
    async with ours(script, {"trigger": {"tokens": 9000}, "keep": {"messages": 3}}) as system:
        await system.play(6)
        assert (await system.view()).request
        await system.say(script.ask(), idle=1000)
        view = await system.view()
        assert view.request
        assert view.pruned
        told = [line.strip() for line in script.prompt if line.startswith("human: ")]
        assert told[-1] == "human: thanks 5"
        assert told.index("human: Count the chairs, all of them.") < told.index("human: thanks 0")
