"""Agents with an Anthropic or Google model: the same loop, cost accounting and failures."""

import json
from typing import Any

import pytest
from tests.agent_image.life.conftest import Recorder
from tests.support.agent.reports import read_completed_answer, read_cost


@pytest.fixture(params=["Anthropic", "Google"])
def claude(request: Any, model_port: int) -> dict[str, Any]:
    return {
        "provider": request.param,
        "name": "offline-claude",
        "baseUrl": f"http://127.0.0.1:{model_port}",
        "contextWindow": 8000,
        "maxOutputTokens": 1000,
        "timeoutSeconds": 30,
        "promptCache": True,
        "price": {"inputPerMillion": "3", "outputPerMillion": "15", "cachedInputPerMillion": "0.3"},
    }


async def test_provider_answers_calls_tools_and_remembers(agent, claude, house):
    async with agent(model=claude) as guest:
        first = await guest.say("My dog is called Rex. Book table for 2")
        assert "A table for 2 is booked" in read_completed_answer(first)
        again = await guest.say("What is my dog called?", contextId=first["contextId"])
        assert "Rex" in read_completed_answer(again)
        both = await guest.say("Book table for 3; charge card 5 [[together]]", contextId=first["contextId"])
        assert "charged 5" in read_completed_answer(both)
    assert sorted(house.ledger) == ["charged 5", "table for 2", "table for 3"]


_TRUNCATED = "https://fleetwright.dev/a2a/truncated/v1"


@pytest.mark.parametrize("openai", [False, True])
async def test_provider_answer_cut_at_the_token_limit_is_marked(agent, claude, model, openai):
    document = model[1] if openai else claude
    async with agent(model=document) as guest:
        name = document["name"]
        said = f"Hello {name} of {claude['provider']} [[fail:length*1]]"
        cut, whole = await guest.say(said), await guest.say(said)
        assert await guest.metric(f'llm_cut_answers_total{{model="{name}"}}') == 1
    assert read_completed_answer(whole).startswith(read_completed_answer(cut))
    assert len(read_completed_answer(cut)) < len(read_completed_answer(whole))
    (half,), (all_of_it,) = cut["artifacts"], whole["artifacts"]
    assert half["metadata"][_TRUNCATED] is True
    assert half["metadata"][f"{_TRUNCATED}/reason"] == "output-limit"
    assert _TRUNCATED in half["extensions"]
    assert _TRUNCATED not in all_of_it["metadata"]


async def test_provider_streams_text_and_reports_reasoning(agent, claude, message):
    async with agent(model=claude, extensions={"reasoning": True}) as guest:
        asked = message("Tell me a story [[think:3]] [[long:60]] [[pause:0.02]]")
        events = [event async for event in guest.events("SendStreamingMessage", asked)]
    pieces = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert len(pieces) > 2, "the model streams the answer"
    thoughts = [
        part["data"]["text"]
        for event in events
        for part in event.get("statusUpdate", {}).get("status", {}).get("message", {}).get("parts", ())
        if "data" in part
    ]
    assert thoughts == ["thought0 thought1 thought2 "]


async def test_provider_usage_prices_cached_tokens_separately(agent, claude):
    async with agent(model=claude) as guest:
        text = "Tell me about " + "the sea and " * 150
        first = await guest.say(text)
        second = await guest.say("And now?", contextId=first["contextId"])
        usage = read_cost(second)["usage"]
        assert usage["cache_read_input_tokens"] > 0
        fresh = usage["input_tokens"] - usage["cache_read_input_tokens"]
        dollars = (3 * fresh + 0.3 * usage["cache_read_input_tokens"] + 15 * usage["output_tokens"]) / 1e6
        assert read_cost(second)["costUsd"] == pytest.approx(dollars, abs=1e-6)
        spent = await guest.metric('llm_cost_usd_total{model="offline-claude"}')
        assert read_cost(first)["costUsd"] + read_cost(second)["costUsd"] == pytest.approx(spent, abs=2e-6)


async def test_provider_caches_only_if_declared_or_implicit(agent, claude):
    async with agent(model={**claude, "promptCache": False}) as guest:
        first = await guest.say("Tell me about " + "the sea and " * 150)
        second = await guest.say("And now?", contextId=first["contextId"])
        assert ("cache_read_input_tokens" in read_cost(second)["usage"]) is (claude["provider"] == "Google")


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        pytest.param("401", "model_unauthorized", id="a refused key"),
        pytest.param("404", "model_not_found", id="an unknown model"),
        pytest.param("429*9", "model_rate_limited", id="a rate limit"),
        pytest.param("malformed", "model_malformed_tool_call", id="half a call of a tool"),
        pytest.param("overflow", "model_context_overflow", id="a prompt that is too long"),
        pytest.param("refused", "model_refused_request", id="a request that is refused"),
    ],
)
async def test_provider_failures_have_the_common_reasons(agent, claude, house, marker, reason):
    async with agent(model=claude) as guest:
        failed = await guest.say(f"Book table for 2 [[fail:{marker}]]")
        assert failed["status"]["message"]["metadata"]["reason"] == reason
    assert house.ledger == []


async def test_provider_transient_failure_is_retried(agent, claude):
    async with agent(model=claude) as guest:
        assert "Hello" in read_completed_answer(await guest.say("Hello my dear friend [[fail:429*1]]"))
        assert "Hello" in read_completed_answer(await guest.say("Hello my dear old friend [[fail:cut*1]]"))
        assert await guest.metric('llm_calls_total{model="offline-claude",outcome="ok"}') == 2


async def test_provider_key_rotation_applies_to_the_next_call(agent, claude, mounted, keyed_model_port):
    mounted.write(mounted.layout.secret("secrets/anthropic/api-key"), "old")
    model = {**claude, "baseUrl": f"http://127.0.0.1:{keyed_model_port}", "apiKeyFile": "secrets/anthropic/api-key"}
    async with agent(model=model) as guest:
        refused = await guest.say("Hello")
        assert refused["status"]["message"]["metadata"]["reason"] == "model_unauthorized"
        (shown,) = (await guest.status())["modelCalls"]["refused"]
        assert (shown["model"], shown["reason"]) == (model["name"], "model_unauthorized")
        assert shown["message"], "the operator shows the words of the provider"
        mounted.layout.secret("secrets/anthropic/api-key").write_text("right")
        assert "Hello" in read_completed_answer(await guest.say("Hello"))
        assert "refused" not in (await guest.status())["modelCalls"]


async def test_conversation_continues_across_providers(agent, claude, model_port, house):
    price = {"inputPerMillion": "1", "outputPerMillion": "2"}
    other = {**claude, "provider": "OpenAI", "name": "other", "baseUrl": f"{claude['baseUrl']}/v1", "price": price}
    other["promptCache"] = False
    async with agent(model={**claude, "fallbacks": [other]}) as guest:
        first = await guest.say("My dog is called Rex. Book table for 2 [[think:2]]")
        second = await guest.say("Book table for 3 [[fail:401@offline-claude]]", contextId=first["contextId"])
        assert "A table for 3 is booked" in read_completed_answer(second)
        assert await guest.metric('llm_calls_total{model="other",outcome="ok"}') == 2
        third = await guest.say("What is my dog called? [[fail:403@other]]", contextId=first["contextId"])
        assert "Rex" in read_completed_answer(third), "the first model answers when the second fails"
    assert house.ledger == ["table for 2", "table for 3"]


async def test_provider_serves_typed_results_and_compactions(agent, claude):
    schema = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}
    results = [{"skill": "count", "outputSchema": schema}]
    policy = {"trigger": {"tokens": 1500}, "keep": {"messages": 2}}
    async with agent(model=claude, results=results, compaction=policy) as guest:
        typed = await guest.say("There are 4 guests", metadata={"skillHint": "count"})
        assert typed["artifacts"][0]["parts"][1]["data"] == {"guests": 4}
        context = (await guest.say("My dog is called Rex."))["contextId"]
        for number in range(5):
            await guest.say(f"Tell me a story, number {number} [[long:250]]", contextId=context)
        assert await guest.metric("compactions_total") > 0
        assert await guest.metric('compaction_llm_tokens_total{cached="true",direction="input"}') > 0, (
            "its own model writes the summary"
        )
        assert "Rex" in read_completed_answer(await guest.say("What is my dog called?", contextId=context))


class Signing(Recorder):
    """A model that signs each tool call, as Google does, and expects the signature in later requests."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def signed(message: Any) -> None:
            text = message.get("body", b"").decode()
            if '"tool_calls": [' in text:
                event = json.loads(text.removeprefix("data: "))
                for call in event["choices"][0]["delta"]["tool_calls"]:
                    call["extra_content"] = {"google": {"thought_signature": f"signed {call['id']}"}}
                message = {**message, "body": f"data: {json.dumps(event)}\n\n".encode()}
            await send(message)

        await super().__call__(scope, receive, signed)


def told_again(body: Any) -> list[Any]:
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    return [
        call.get("extra_content", {}).get("google", {}).get("thought_signature") == f"signed {call['id']}"
        for call in calls
    ]


async def test_provider_call_metadata_returns_only_to_that_provider(agent, serve):
    signing, other = Signing(), Recorder()
    with serve(signing) as one, serve(other) as two:
        at = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        second = {**at, "name": "other", "baseUrl": f"http://127.0.0.1:{two}/v1"}
        model = {**at, "name": "offline", "baseUrl": f"http://127.0.0.1:{one}/v1", "fallbacks": [second]}
        async with agent(model=model) as guest:
            first = await guest.say("Book table for 2")
        async with agent(model=model) as guest:
            await guest.say("Book table for 3; charge card 5 [[together]]", contextId=first["contextId"])
            newest = len(signing.asked)
            assert told_again(signing.asked[-1]) == [True, True, True], "after a restart too"
            await guest.say("Hello [[fail:401@offline]]", contextId=first["contextId"])
    assert len(signing.asked) > newest
    assert told_again(other.asked[-1]) == [False, False, False]
    assert "extra_content" not in json.dumps(other.asked)
