"""Failed summaries: the pause after them, the attempts that follow, and what the log and the metrics report."""

import logging

import pytest
from tests.bench.compaction import summarisers
from tests.bench.compaction.fixtures import Call, Conversation, Turn
from tests.bench.compaction.ours import ours
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.scripted import Script

from fleetwright_agent.storage.sqlite.conversations.failing_compactions import count_failing_compactions

EARLY = {"trigger": {"tokens": 3000}, "keep": {"messages": 4}}


def chat(turns, *, calls=()):
    """Return a script with one model call for each message, unless a turn calls tools."""
    answer = "fine " * 200
    conversation = Conversation([Turn(f"question {n} " + "so " * 100, list(calls), answer) for n in range(turns)])
    return Script(conversation, Provider(), summarisers.failing)


async def attempts_of_each_message(system, script, messages, *, restart=False):
    attempts = []
    for _ in range(messages):
        before = script.provider.summaries
        await system.play(1)
        attempts.append(script.provider.summaries - before)
        if restart:
            system.restart()
    return attempts


@pytest.mark.parametrize(
    "restart", [pytest.param(False, id="one process"), pytest.param(True, id="a restart each time")]
)
async def test_compaction_breaker_pauses_then_tries_once_per_message(restart):
    script = chat(26)
    async with ours(script, EARLY) as system:
        attempts = await attempts_of_each_message(system, script, 26, restart=restart)
        first = attempts.index(1)
        assert attempts[first : first + 6] == [1, 0, 1, 0, 0, 0]
        assert set(attempts[first + 6 :]) == {1}
        assert system.count("compaction_breaker_open") == 1
        assert not system.failures


async def test_compaction_succeeds_when_the_summariser_recovers():
    script = chat(20)
    async with ours(script, EARLY) as system:
        while not script.provider.summaries:
            await system.play(1)
        script.summarise = summarisers.extractive
        await system.play(2)
        assert system.compactions() == 1
        assert system.count("compaction_breaker_open") == 0


async def test_compaction_failure_log_has_reason_tokens_and_next_try(caplog):
    script = chat(26)
    with caplog.at_level(logging.WARNING, logger="fleetwright_agent"):
        async with ours(script, EARLY) as system:
            await system.play()
            failed = system.count("compactions_total", trigger="tokens", method="summary", outcome="failed")
    lines = [record for record in caplog.records if record.message == "compaction failed"]
    assert len(lines) == failed == script.provider.summaries
    assert {line.reason for line in lines} == {"model_error"}
    assert all(line.tokens >= 3000 for line in lines)
    assert [line.nextAttempt for line in lines][:4] == [
        "after 1 further model call",
        "after 3 further model calls",
        "at the caller's next message",
        "at the caller's next message",
    ]
    assert [line.failures for line in lines][:4] == [1, 2, 3, 3]


async def test_failing_compactions_are_counted_from_the_disk():
    script = chat(24)
    async with ours(script, EARLY) as system:
        await system.play()
        assert await count_failing_compactions(system.database, at_least=3) == 1
        assert await count_failing_compactions(system.database, at_least=4) == 0


async def test_compaction_repeats_within_a_turn_only_if_it_pays_back():
    """Return a turn of 21 model calls whose prompts nearly all exceed the trigger."""
    calls = [Call("look", {"n": n}, f"result {n} " + "word " * 60) for n in range(20)]
    conversation = Conversation(
        [Turn(f"question {n} " + "so " * 100, [], "fine " * 200) for n in range(8)]
        + [Turn("Look at all twenty.", calls, "done")]
    )
    script = Script(conversation, Provider(), summarisers.extractive)
    policy = {"trigger": {"tokens": 1200}, "keep": {"messages": 2}, "guard": {"minGain": "0.05"}}
    async with ours(script, policy) as system:
        await system.play(8)
        before = system.compactions()
        await system.play(1)
        assert not system.failures
        assert 1 <= system.compactions() - before <= 3
