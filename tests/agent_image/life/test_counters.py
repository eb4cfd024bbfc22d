"""The counters of an agent continue after a restart and after a kill, so a scraper sees one series."""

from typing import Any

ALONE = {"memory": {"sessions": {"enabled": False}}}
"""Without summaries of earlier sessions, equal messages have equal costs."""
STORED_WITH_EACH_CALL = (
    'llm_tokens_total{direction="input"',
    'llm_tokens_total{direction="output"',
    "llm_cost_usd_total",
    'caller_cost_usd_total{caller="client:default"}',
    'caller_cost_usd_total{caller="client:other"}',
)
OTHERS = ("llm_calls_total", 'tool_calls_total{outcome="ok"')


async def counted(guest: Any, names: tuple[str, ...]) -> list[float]:
    return [await guest.metric(name) for name in names]


async def test_every_counter_continues_after_a_restart(agent) -> None:
    async with agent(**ALONE) as guest:
        await guest.say("Book table for 2")
        await guest.by("client:other").say("Hello")
        before = await counted(guest, (*STORED_WITH_EACH_CALL, *OTHERS))
        assert all(before)
    async with agent(**ALONE) as guest:
        assert await counted(guest, (*STORED_WITH_EACH_CALL, *OTHERS)) == before
        await guest.say("Book table for 2")
        after = await counted(guest, OTHERS)
    calls, tools = before[-2:]
    assert after == [calls + 2, 2 * tools]


async def test_killed_agent_loses_no_cost_and_nothing_exposed(agent_process) -> None:
    """The first kill follows a scrape, the second does not."""
    async with agent_process(**ALONE) as guest:
        await guest.say("Book table for 2")
        first = await counted(guest, OTHERS)
        assert all(first)
        await guest.kill()
    async with agent_process(**ALONE) as guest:
        assert await counted(guest, OTHERS) == first
        once = await counted(guest, STORED_WITH_EACH_CALL[:4])
        await guest.say("Book table for 2")
        await guest.kill()
    async with agent_process(**ALONE) as guest:
        twice = await counted(guest, STORED_WITH_EACH_CALL[:4])
    assert [round(value / former, 3) for value, former in zip(twice, once, strict=True)] == [2, 2, 2, 2]
