"""Request metadata: origin, trigger, priority and incognito."""

import json
import sqlite3
from contextlib import closing

import pytest
from tests.support.agent.reports import COST, read_answer, read_audit_lines

from fleetwright_agent.storage.sqlite.conversations.schema import FILE

CAT = "My cat is called Tom."


def remembered(mounted):
    """Return the metadata of each conversation, by its name."""
    with closing(sqlite3.connect(mounted.layout.memory / FILE)) as db:
        return {name: json.loads(body) for name, body in db.execute("SELECT context, body FROM sessions")}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"incognito": True}, id="that is incognito"),
        pytest.param({"trigger": "background"}, id="that no person has triggered"),
    ],
)
async def test_private_request_neither_reads_nor_stores_sessions(agent, message, mounted, metadata):
    async with agent() as guest:
        await guest.say(CAT)
        assert "Tom" in read_answer(await guest.say("What is my cat called?")), "later sessions see it"
        before = remembered(mounted)
        asked = await guest.call("SendMessage", message("What is my cat called?") | {"metadata": metadata})
        assert "Tom" not in read_answer(asked["result"]["task"])
        await guest.say("My dog is called Rex.", metadata=metadata)
        assert remembered(mounted) == before
        assert "Rex" not in read_answer(await guest.say("What is my dog called?"))


async def test_session_records_the_calls_of_its_newest_answer(agent, message, model, mounted):
    recorder, document = model
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with agent(model=document) as guest:
        asked = message("Book table for 4; charge card 30", contextId="c:1")
        asked["metadata"] = {"a2a.trace": {"traceId": trace, "spanId": "00f067aa0ba902b7"}}
        await guest.call("SendMessage", asked)
        await guest.say("What did you do?", contextId="c2")
    session = remembered(mounted)["c:1"]
    calls = session["tool_calls"]
    assert [(call["name"], call["args"]) for call in calls] == [
        ("house__book_table", '{"guests": 4}'), ("house__charge_card", '{"amount": 30}')
    ]  # fmt: skip
    assert calls[1]["result"] == "The card is charged 30."
    assert all(0 <= call["duration_ms"] < 30_000 for call in calls)
    assert (session["tool_calls_total_count"], session["trace_id"]) == (2, trace)
    (told,) = (m["content"] for m in recorder.newest if str(m["content"]).startswith("<prior_sessions"))
    assert "conversation c:1, answered with house__book_table, house__charge_card:" in told


async def test_incognito_task_stays_incognito_in_its_answers(agent, mounted):
    async with agent() as guest:
        task = await guest.say("Ask the human about dessert", metadata={"incognito": True})
        done = await guest.say("Cake", taskId=task["id"], metadata={"incognito": False})
        assert "Cake" in read_answer(done)
    assert remembered(mounted) == {}


async def test_request_origin_and_trigger_are_audited_and_logged(agent, message, mounted, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    said = message("Book table for 4", metadata={"origin": "shop", "trigger": "cron", "priority": "low"})
    async with agent() as guest:
        await guest.call("SendMessage", said | {"metadata": {"origin": "night shift"}})
    (line,) = read_audit_lines(mounted)
    assert (line["origin"], line["trigger"], line["priority"]) == ("night shift", "cron", "low")
    (rests,) = (record for record in caplog.records if record.message == "task rests")
    assert (rests.origin, rests.trigger, rests.priority) == ("night shift", "cron", "low")


async def test_task_log_reports_the_usage_of_each_turn(agent, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    async with agent(askHuman=True) as guest:
        task = await guest.say("Book table for 4, then ask the human about dessert")
        asked = task["status"]["message"]["metadata"][COST]
        await guest.say("Cake", taskId=task["id"])
    waits, ends = (record for record in caplog.records if record.message == "task rests")
    assert (waits.state, waits.modelCalls, waits.toolCalls, waits.models) == ("input-required", 2, 1, ["offline"])
    assert waits.input_tokens == asked["usage"]["input_tokens"]
    assert {waits.context, ends.context} == {task["contextId"]}
    assert (ends.state, ends.modelCalls, ends.toolCalls, ends.models) == ("completed", 3, 2, ["offline"])
    assert ends.input_tokens > waits.input_tokens


async def test_peer_receives_only_the_origin_of_a_request(agent, peer, mounted):
    token = mounted.layout.peer_token_file("team", "cook")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("self")
    async with peer() as cook, agent(peers=[{"name": "cook", "namespace": "team", "url": cook.url}]) as guest:
        about = {"origin": "shop", "trigger": "cron", "priority": "now", "model": "other", "reasoning_effort": "low"}
        await guest.say("Ask the cook to boil eggs.", metadata=about)
        (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
        (asked,) = (await cook.get(task))["history"]
    assert {key: asked["metadata"].get(key) for key in about} == about | {"model": None, "reasoning_effort": None}


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"origin": 7}, "metadata.origin", id="an origin that is no text"),
        pytest.param({"origin": "x" * 65}, "metadata.origin", id="a long one"),
        pytest.param({"trigger": "cron\nlevel=error"}, "metadata.trigger", id="a trigger of two lines"),
        pytest.param({"priority": ["high"]}, "metadata.priority", id="a priority that is a list"),
        pytest.param({"incognito": "yes"}, "metadata.incognito", id="a word for whether it is to be forgotten"),
    ],
)
async def test_invalid_request_metadata_is_refused_by_field(agent, message, metadata, field):
    async with agent() as guest:
        error = (await guest.call("SendMessage", message("Hello there", metadata=metadata)))["error"]
        assert (await guest.call("ListTasks", {}))["result"]["tasks"] == []
    assert error["code"] == -32602
    assert field in error["message"]


THINKING = {"name": "thinker", "maxOutputTokens": 500, "contextWindow": 32_000, "timeoutSeconds": 20}


@pytest.fixture
def offered(model):
    """Return the recorder and a model with low reasoning effort, whose fallback has the same address."""
    recorder, own = model
    return recorder, own | {"reasoningEffort": "low", "fallbacks": [THINKING | {"baseUrl": own["baseUrl"]}]}


@pytest.mark.parametrize(
    ("choices", "metadata", "asked"),
    [
        pytest.param(["Model"], {"model": "thinker"}, ("thinker", None), id="a fallback, first"),
        pytest.param(["Model"], {"model": "offline"}, ("offline", "low"), id="the agent's own"),
        pytest.param(["Model"], {}, ("offline", "low"), id="none"),
        pytest.param(["ReasoningEffort"], {"reasoning_effort": "high"}, ("offline", "high"), id="how long to think"),
        pytest.param(
            ["Model", "ReasoningEffort"],
            {"model": "thinker", "reasoning_effort": "medium"},
            ("thinker", "medium"),
            id="both",
        ),
        pytest.param([], {"model": "thinker", "reasoning_effort": "high"}, ("offline", "low"), id="what it may not"),
        pytest.param(["Model"], {"reasoning_effort": 7}, ("offline", "low"), id="and a word that nobody looks at"),
    ],
)
async def test_caller_choices_select_model_and_effort(agent, offered, choices, metadata, asked):
    async with agent(model=offered[1], callerChoices=choices) as guest:
        task = await guest.say("Hello there", metadata=metadata)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await guest.metric(f'llm_calls_total{{model="{asked[0]}",outcome="ok"}}') == 1
    (body,) = offered[0].asked
    assert (body["model"], body.get("reasoning_effort")) == asked


async def test_extra_body_is_sent_with_every_model_call(agent, model):
    recorder, own = model
    beside = {"top_k": 40, "chat_template_kwargs": {"enable_thinking": False}}
    async with agent(model=own | {"extraBody": beside}) as guest:
        await guest.say("Book table for 4")
    assert len(recorder.asked) == 2
    assert all(beside.items() <= body.items() for body in recorder.asked)


async def test_caller_choice_persists_for_the_task(agent, offered):
    async with agent(model=offered[1], callerChoices=["Model"], askHuman=True) as guest:
        task = await guest.say("Ask the human about dessert", metadata={"model": "thinker"})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        await guest.say("Cake", taskId=task["id"])
    assert [body["model"] for body in offered[0].asked] == ["thinker", "thinker"]


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param({"reasoning_effort": "extreme"}, id="an effort"),
        pytest.param({"reasoning_effort": ["high"]}, id="a list"),
        pytest.param({"model": "gpt-9"}, id="a model"),
    ],
)
async def test_ignored_caller_choice_does_not_fail_a_later_answer(agent, offered, begun):
    """Metadata that was ignored when the task started does not fail it after caller choices are enabled."""
    async with agent(model=offered[1], askHuman=True) as guest:
        task = await guest.say("Ask the human about dessert", metadata=begun)
    async with agent(model=offered[1], askHuman=True, callerChoices=["Model", "ReasoningEffort"]) as guest:
        done = await guest.say("Cake", taskId=task["id"])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED", done["status"]
    last = offered[0].asked[-1]
    assert (last["model"], last["reasoning_effort"]) == ("offline", "low")


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        pytest.param({"model": "gpt-9"}, "metadata.model must be one of: offline, thinker", id="a model of nobody"),
        pytest.param({"model": ["thinker"]}, "metadata.model must be one of", id="a list of models"),
        pytest.param(
            {"reasoning_effort": "extreme"},
            "metadata.reasoning_effort must be one of: high, low, medium",
            id="an effort that no model knows",
        ),
    ],
)
async def test_caller_choice_outside_the_offer_is_refused(agent, offered, message, metadata, sentence):
    async with agent(model=offered[1], callerChoices=["Model", "ReasoningEffort"]) as guest:
        error = (await guest.call("SendMessage", message("Hello there", metadata=metadata)))["error"]
        assert (await guest.call("ListTasks", {}))["result"]["tasks"] == []
    assert error["code"] == -32602
    assert sentence in error["message"]


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        pytest.param("OpenAI", ("reasoning_effort",), id="OpenAI's"),
        pytest.param("Anthropic", ("output_config", "effort"), id="Anthropic's"),
        pytest.param("Google", ("generationConfig", "thinkingConfig", "thinking_level"), id="Google's"),
    ],
)
async def test_reasoning_effort_is_sent_in_the_terms_of_the_provider(agent, model, provider, place):
    recorder, own = model
    base = own["baseUrl"] if provider == "OpenAI" else own["baseUrl"].removesuffix("/v1")
    thinking = own | {"provider": provider, "baseUrl": base, "reasoningEffort": "low"}
    async with agent(model=thinking) as guest:
        assert "Hello" in read_answer(await guest.say("Hello there"))
    told = recorder.asked[0]
    for name in place:
        told = told[name]
    assert told.lower() == "low"


async def test_task_log_has_the_start_and_the_tools_of_a_task(agent, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    async with agent(askHuman=True) as guest:
        task = await guest.say("Book table for 4, then ask the human about dessert")
        await guest.say("Cake", taskId=task["id"])
        waiting = await guest.say("Ask the human about dessert")
        await guest.call("CancelTask", {"id": waiting["id"]})
    seen = [record for record in caplog.records if getattr(record, "task", "") == task["id"]]
    assert [(record.message, getattr(record, "tool", "")) for record in seen] == [
        ("task accepted", ""),
        ("tool call ended", "house__book_table"),
        ("task rests", ""),
        ("a person answered", ""),
        ("task continues", ""),
        ("tool call ended", "ask_human"),
        ("task rests", ""),
    ]
    assert {record.outcome for record in seen if record.message == "tool call ended"} == {"ok"}
    assert not [record for record in seen if "dessert" in str(record.__dict__)]
    about = [record for record in caplog.records if getattr(record, "task", "") == waiting["id"]]
    ends = [record.state for record in about if record.message == "task rests"]
    assert ends == ["input-required", "canceled"]
