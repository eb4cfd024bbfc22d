"""The offline model over HTTP: the behaviour that provider clients rely on, and failures on request."""

import json

import httpx
import pytest

from fleetwright_cli.offline.answers import answer
from fleetwright_cli.offline.model import OfflineModel
from fleetwright_cli.offline.planning import plan


def _tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = _tool("get_weather", "Weather of a city today", city={"type": "string"})
CONVERT = _tool(
    "units__convert_length",
    "Convert a length between units",
    value={"type": "number"},
    to_unit={"enum": ["miles", "kilometres"]},
)
ASK = _tool("ask_cook", "Ask the agent cook (knows recipes) and wait for its answer.", message={"type": "string"})
ASK["function"]["parameters"]["properties"]["task_id"] = {"type": "string"}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param("Good morning", [], id="nothing fits, nothing is called"),
        pytest.param(
            'What is the weather in the city "Lima"?', [("get_weather", {"city": "Lima"})], id="a quotation is a value"
        ),
        pytest.param(
            "Convert 12 to kilometres of length.",
            [("units__convert_length", {"value": 12.0, "to_unit": "kilometres"})],
            id="numbers and choices are read from the step",
        ),
        pytest.param("Convert the length to miles.", [], id="a call without a required value is not made"),
        pytest.param(
            "Ask the cook to boil eggs.", [("ask_cook", {"message": "boil eggs."})], id="a request is passed on"
        ),
        pytest.param(
            'Ask the cook about "A-1003"', [("ask_cook", {"message": "A-1003"})], id="what may be left out is left out"
        ),
        pytest.param(
            'Ask the cook "two" for task_id t-7.',
            [("ask_cook", {"message": "two", "task_id": "t-7."})],
            id="unless the step names it",
        ),
        pytest.param(
            'Weather of the city "Rome", then ask the cook about pasta',
            [("get_weather", {"city": "Rome"}), ("ask_cook", {"message": "pasta"})],
            id="two steps make two calls in order",
        ),
    ],
)
def test_plan_selects_tools_and_arguments_from_the_text(text, calls):
    assert [(call.name, dict(call.arguments)) for call in plan(text, [WEATHER, CONVERT, ASK])] == calls


@pytest.fixture
async def http():
    transport = httpx.ASGITransport(app=OfflineModel(key="k").app())
    headers = {"Authorization": "Bearer k"}
    async with httpx.AsyncClient(transport=transport, base_url="http://model", headers=headers) as client:
        yield client


async def _complete(http, *messages, **options):
    body = {"model": "m", "messages": list(messages), **options}
    return await http.post("/v1/chat/completions", json=body)


def _user(text):
    return {"role": "user", "content": text}


async def test_chat_completions_are_deterministic(http):
    first = (await _complete(http, _user("Hello you"))).json()
    second = (await _complete(http, _user("Hello you"))).json()
    assert first["choices"] == second["choices"]
    assert first["id"] == second["id"]
    assert first["usage"]["prompt_tokens"] == second["usage"]["prompt_tokens"]


async def test_stream_equals_the_plain_answer_and_ends_with_usage(http):
    plain = (await _complete(http, _user("Hello you"))).json()
    options = {"stream": True, "stream_options": {"include_usage": True}}
    text = (await _complete(http, _user("Hello you"), **options)).text
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    said = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert said == plain["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]


async def test_tool_call_is_followed_by_an_answer_with_its_result(http):
    asked = _user('Weather of the city "Lima" please')
    call = (await _complete(http, asked, tools=[WEATHER])).json()["choices"][0]
    assert call["finish_reason"] == "tool_calls"
    (tool_call,) = call["message"]["tool_calls"]
    assert json.loads(tool_call["function"]["arguments"]) == {"city": "Lima"}
    result = {"role": "tool", "tool_call_id": tool_call["id"], "content": "21 degrees"}
    told = (await _complete(http, asked, call["message"], result, tools=[WEATHER])).json()["choices"][0]
    assert "21 degrees" in told["message"]["content"]


ASKED_BACK = 'How many eggs? To answer, call this tool again with task_id "t-7" and the answer as message'


def _result(identity, text):
    return {"role": "tool", "tool_call_id": identity, "content": text}


async def _next(http, messages, text=None):
    """Return the tool calls of the next reply, or its text. Append the reply and the results of its calls."""
    reply = (await _complete(http, *messages, tools=[WEATHER, ASK])).json()["choices"][0]["message"]
    calls = reply.get("tool_calls", [])
    messages += [reply, *(_result(call["id"], text) for call in calls)]
    return [json.loads(call["function"]["arguments"]) for call in calls] or reply["content"]


async def test_plan_answers_a_tool_that_asks_a_question(http):
    messages = [_user('There are two eggs. Ask the cook to boil them, then tell the weather of the city "Lima".')]
    assert await _next(http, messages, ASKED_BACK) == [{"message": "boil them"}]
    assert await _next(http, messages, "Boiled.") == [{"message": "There are two eggs.", "task_id": "t-7"}]
    assert await _next(http, messages, "It rains.") == [{"city": "Lima"}]
    assert "Boiled. It rains." in await _next(http, messages)


async def test_plan_continues_past_a_question_it_cannot_answer(http):
    messages = [_user('Ask the cook to boil them, then tell the weather of the city "Lima".')]
    assert await _next(http, messages, ASKED_BACK) == [{"message": "boil them"}]
    assert await _next(http, messages, "It rains.") == [{"city": "Lima"}]
    assert "It rains." in await _next(http, messages)


async def test_shared_prompt_prefix_counts_as_cached_tokens(http):
    history = [_user("x" * 4000)]
    await _complete(http, *history)
    usage = (await _complete(http, *history, _user("more"))).json()["usage"]
    assert 896 <= usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


async def test_wrong_api_key_returns_401(http):
    refused = await http.post("/v1/chat/completions", json={}, headers={"Authorization": "Bearer other"})
    assert refused.status_code == 401


@pytest.mark.parametrize(
    ("marker", "status"),
    [
        pytest.param("401", 401, id="a refused key"),
        pytest.param("429", 429, id="a rate limit"),
        pytest.param("500", 500, id="a broken server"),
        pytest.param("overflow", 400, id="a prompt that is too long"),
    ],
)
async def test_fail_marker_fails_every_request(http, marker, status):
    for _ in range(2):
        assert (await _complete(http, _user(f"Hi [[fail:{marker}]]"))).status_code == status


async def test_fail_marker_with_a_count_fails_that_often(http):
    statuses = [(await _complete(http, _user("Hi [[fail:500*2]]"))).status_code for _ in range(3)]
    assert statuses == [500, 500, 200]


async def test_fail_marker_malformed_truncates_the_tool_arguments(http):
    reply = (await _complete(http, _user("Hi [[fail:malformed]]"))).json()["choices"][0]["message"]
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(reply["tool_calls"][0]["function"]["arguments"])


async def test_tool_name_that_providers_refuse_returns_400(http):
    reply = await _complete(http, _user("Hi"), tools=[_tool("a.b/c", "d")])
    assert reply.status_code == 400
    assert "tools[0].function.name" in reply.json()["error"]["message"]


async def test_request_without_messages_returns_400(http):
    reply = await http.post("/v1/chat/completions", json={"model": "m"})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("messages:")


SYSTEM = {"role": "system", "content": "You are the shop. Be kind.\nOur opening hours are 9:00 to 18:00."}
SKILL = """---
name: refunds
---
# Refund policy
- Goods in transit: wait.
- Goods that arrived broken: refund in full."""
PLAIN = "My instructions begin: You are the shop. I read your message: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param("Good day! Which hours are open?", "Good day! Our opening hours are 9:00 to 18:00.", id="hello"),
        pytest.param("Which hours are you open", "Our opening hours are 9:00 to 18:00.", id="no question mark"),
        pytest.param("I open at all hours.", f"{PLAIN}I open at all hours.", id="statement"),
        pytest.param("Which way to the sea?", f"{PLAIN}Which way to the sea?", id="unknown"),
    ],
)
def test_answer_quotes_the_instructions_that_match_the_question(said, told):
    assert answer([SYSTEM, _user(said)], []).text == told


def test_answer_quotes_the_skill_line_that_matches_other_results():
    results = [_result("1", SKILL), _result("2", "Order A-1: a lamp, reported broken.")]
    said = answer([_user("Look up the refund of order A-1"), *results], []).text
    assert said.endswith(
        "Order A-1: a lamp, reported broken. Refund policy: Goods that arrived broken: refund in full."
    )
    assert answer([_user("Load it"), results[0]], []).text.startswith("Here is what I found. --- name: refunds")


@pytest.mark.parametrize("length", [1, 2, 60, 1000])
def test_letter_marker_sets_the_number_of_words(length):
    text = answer([_user(f"Write me a letter. [[letter:{length}]]")], []).text
    assert len(text.split(" ")) == length
    assert text.startswith("Dear")
