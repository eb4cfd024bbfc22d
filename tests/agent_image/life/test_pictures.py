"""Pictures from callers: models with vision see them, other models get a description, and prompts count them."""

import json

import pytest

PNG = "iVBORw0KGgo" + "A" * 4000 + "="
NOTE = "which this model cannot see"


@pytest.fixture
def sees(mounted):
    """Write the operator's card for an agent whose model has vision."""
    card = json.loads(mounted.layout.card_file.read_text())
    mounted.write(mounted.layout.card_file, card | {"defaultInputModes": ["text/plain", "image/png"]})


def shown(text="What is on it?"):
    picture = {"raw": PNG, "mediaType": "image/png"}
    return {"parts": [*([{"text": text}] if text else []), picture]}


def at(own, provider):
    base = own["baseUrl"] if provider == "OpenAI" else own["baseUrl"].removesuffix("/v1")
    return own | {"provider": provider, "baseUrl": base, "vision": True}


@pytest.mark.parametrize("provider", ["OpenAI", "Anthropic", "Google"])
@pytest.mark.parametrize("text", [pytest.param("What is on it?", id="with words"), pytest.param("", id="alone")])
async def test_vision_model_receives_the_picture_once_per_turn(agent, model, sees, provider, text):
    recorder, own = model
    async with agent(model=at(own, provider)) as guest:
        task = await guest.say("", **shown(text))
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
        await guest.say("And now?", contextId=task["contextId"])
    first, second = (json.dumps(body) for body in recorder.asked)
    assert first.count(PNG) == second.count(PNG) == 1
    assert text in first
    assert "image/png" in first


async def test_picture_media_type_is_normalised(agent, model, sees):
    recorder, own = model
    picture = {"raw": PNG, "mediaType": " Image/PNG; q=1"}
    async with agent(model=at(own, "OpenAI")) as guest:
        task = await guest.say("", parts=[{"text": "What is on it?"}, picture])
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    assert f"data:image/png;base64,{PNG}" in json.dumps(recorder.asked[0])


async def test_text_fallback_receives_a_note_instead_of_the_picture(agent, model, sees):
    recorder, own = model
    blind = {**own, "name": "blind"}
    async with agent(model=at(own, "OpenAI") | {"fallbacks": [blind]}) as guest:
        task = await guest.say("", **shown("What is on it? [[fail:401@offline]]"))
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    refused, answered = recorder.asked[0], recorder.asked[-1]
    assert (refused["model"], answered["model"]) == ("offline", "blind")
    assert PNG in json.dumps(refused)
    assert PNG not in json.dumps(answered)
    assert NOTE in json.dumps(answered)


async def test_conversation_continues_after_vision_is_disabled(agent, model, sees):
    recorder, own = model
    async with agent(model=at(own, "OpenAI")) as guest:
        context = (await guest.say("", **shown()))["contextId"]
    async with agent(model=own) as guest:
        task = await guest.say("And now?", contextId=context)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
    assert PNG not in json.dumps(recorder.asked[-1])
    assert NOTE in json.dumps(recorder.asked[-1])


async def test_text_only_agent_refuses_a_picture(agent, message, model):
    async with agent(model=model[1]) as guest:
        error = (await guest.call("SendMessage", message("", **shown())))["error"]
    assert (error["code"], "text only" in error["message"]) == (-32005, True)


async def test_picture_is_counted_by_its_tokens_not_its_bytes(agent, model, sees, caplog):
    """A picture counts as a picture, not by its bytes, and the log has no picture data."""
    recorder, own = model
    large = {"raw": "iVBORw0KGgo" + "A" * 120_000 + "=", "mediaType": "image/png"}
    policy = {"trigger": {"tokens": 6000}, "keep": {"messages": 2}}
    async with agent(model=at(own, "OpenAI"), compaction=policy) as guest:
        context = (await guest.say("", parts=[{"text": "Look."}, large]))["contextId"]
        await guest.say("And now?", contextId=context)
        assert await guest.metric("compactions_total") == 0
    assert len(recorder.asked) == 2
    assert "AAAAAAAA" not in caplog.text
