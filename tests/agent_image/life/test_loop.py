"""Turns, over A2A, with a model that fails, repeats itself, returns nothing or rejects its prompt."""

from typing import Any

import pytest

MARKER = "https://fleetwright.dev/a2a/model-fallback/v1"


@pytest.fixture
def second(model_port: int) -> dict[str, Any]:
    return {
        "name": "second",
        "baseUrl": f"http://127.0.0.1:{model_port}/v1",
        "contextWindow": 8000,
        "maxOutputTokens": 1000,
        "timeoutSeconds": 30,
        "price": {"inputPerMillion": "3", "outputPerMillion": "6"},
    }


async def told(guest: Any, saying: Any, text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the messages of the stream's status updates, and the last status."""
    events = [event async for event in guest.events("SendStreamingMessage", saying(text))]
    statuses = [event["statusUpdate"]["status"] for event in events if "statusUpdate" in event]
    return [status["message"] for status in statuses if "message" in status], statuses[-1]


@pytest.mark.parametrize("declared", [pytest.param(True, id="declared"), pytest.param(False, id="not declared")])
async def test_model_fallback_answers_and_is_reported_in_the_stream(
    agent, model_port, second, message, house, declared
):
    own = {
        **second,
        "name": "offline",
        "fallbacks": [second],
        "price": {"inputPerMillion": "1", "outputPerMillion": "2"},
    }
    async with agent(model=own, extensions={"modelFallbacks": declared}) as guest:
        said, last = await told(guest, message, "Book table for 2 [[fail:401@offline]]")
        assert last["state"] == "TASK_STATE_COMPLETED"
        (fallback,) = [each for each in said if "another model continues" in each["parts"][0]["text"]]
        marker = {"from": "offline", "to": "second", "reason": "model_unauthorized"}
        assert fallback.get("metadata", {}).get(MARKER) == (marker if declared else None)
        labels = '{from="offline",reason="model_unauthorized",to="second"}'
        assert await guest.metric(f"model_fallbacks_total{labels}") == 1
        tokens_in = await guest.metric('llm_tokens_total{direction="input",model="second"}')
        tokens_out = await guest.metric('llm_tokens_total{direction="output",model="second"}')
        dollars = await guest.metric('llm_cost_usd_total{model="second"}')
        assert dollars == pytest.approx((3 * tokens_in + 6 * tokens_out) / 1e6), "the second model's price applies"
    assert house.ledger == ["table for 2"]


async def test_repeated_tool_call_is_nudged_once_then_stopped(agent, house):
    async with agent() as guest:
        heeded = await guest.say("Book table for 2 [[again:9]]")
        assert heeded["status"]["state"] == "TASK_STATE_COMPLETED"
        assert house.ledger == ["table for 2"] * 3
        assert await guest.metric('repeated_tool_calls_total{outcome="nudged"}') == 1
        stopped = await guest.say("Book table for 4 [[again:9!]]")
        assert stopped["status"]["state"] == "TASK_STATE_FAILED"
        assert stopped["status"]["message"]["metadata"]["reason"] == "repeated_tool_call"
        assert stopped["status"]["message"]["metadata"]["repeated"] == {"tool": "house__book_table", "times": 6}
        assert house.ledger.count("table for 4") == 6
        assert await guest.metric('repeated_tool_calls_total{outcome="ended"}') == 1
        assert (await guest.say("Hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_empty_model_reply_is_prompted_to_continue(agent, house):
    async with agent() as guest:
        done = await guest.say("Book table for 2 [[mute:2]]")
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert "A table for 2 is booked" in done["artifacts"][0]["parts"][0]["text"]
        assert await guest.metric("llm_empty_replies_total") == 2
        mute = await guest.say("Book table for 4 [[mute:9]]")
        assert mute["status"]["message"]["metadata"]["reason"] == "model_empty_answer"
    assert house.ledger == ["table for 2", "table for 4"], "a repeated model call repeats no tool call"


async def test_malformed_tool_call_is_retried_and_runs_once(agent, house):
    async with agent() as guest:
        # The model counts each message while it runs, so no other test may send this message.
        done = await guest.say("Book table for 7 [[fail:malformed*1]]")
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await guest.metric('llm_calls_total{model="offline",outcome="model_malformed_tool_call"}') == 1
    assert house.ledger == ["table for 7"]


async def test_prompt_repair_keeps_the_conversation_usable(agent):
    async with agent() as guest:
        bad = await guest.say("My dog is called Rex.\x07")
        assert bad["status"]["state"] == "TASK_STATE_COMPLETED"
        again = await guest.say("What is my dog called?", contextId=bad["contextId"])
        assert "Rex" in again["artifacts"][0]["parts"][0]["text"]
        assert await guest.metric('llm_mended_requests_total{outcome="answered"}') == 2


@pytest.mark.parametrize(
    ("text", "limits", "reason", "effects"),
    [
        pytest.param(
            "Book table for 2 [[again:9!]]",
            {"maxRepeatedCalls": 0, "maxModelCalls": 8},
            "model_call_limit",
            8,
            id="repeats until the limit of calls",
        ),
        pytest.param(
            "Book table for 2 [[mute:1]]", {"maxEmptyReplies": 0}, "model_empty_answer", 1, id="a model that is mute"
        ),
        pytest.param("Rex.\x07", {"maxMendedRequests": 0}, "model_refused_request", 0, id="a prompt that is refused"),
    ],
)
async def test_loop_corrections_can_be_switched_off(agent, house, text, limits, reason, effects):
    async with agent(limits=limits) as guest:
        task = await guest.say(text)
        assert task["status"]["message"]["metadata"]["reason"] == reason
        for name in ("repeated_tool_calls_total", "llm_empty_replies_total", "llm_mended_requests_total"):
            assert not await guest.metric(name)
    assert len(house.ledger) == effects


@pytest.mark.parametrize(
    ("retries", "calls", "state"),
    [
        pytest.param(0, 1, "TASK_STATE_FAILED", id="none"),
        pytest.param(1, 2, "TASK_STATE_COMPLETED", id="one, which finds the model well again"),
    ],
)
async def test_model_retries_follow_the_configured_number(agent, model, retries, calls, state):
    recorder, own = model
    async with agent(model=own | {"retries": retries}) as guest:
        task = await guest.say(f"Hello to you all [[fail:503*1]] {retries}")
        assert task["status"]["state"] == state
    assert len(recorder.asked) == calls
