"""What callers see of answers that providers were seen to send, through a whole agent and the replaying model."""

import pytest
from tests.support.agent.reports import read_completed_answer
from tests.support.agent.transcripts import FOLDER

from fleetwright_cli.offline.model import OfflineModel
from fleetwright_cli.offline.recording import load_recording

_TRUNCATED = "https://fleetwright.dev/a2a/truncated/v1"


@pytest.fixture
def replay(serve):
    """Start a model that sends a recording to the first requests, and then answers by rules. Yield its base URL."""

    def start(name, *, replays=None):
        app = OfflineModel(recording=load_recording(FOLDER / f"{name}.yaml"), replays=replays).app()
        return serve(app)

    return start


def model_at(port, **changes):
    about = {"name": "offline", "contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
    return {**about, "baseUrl": f"http://127.0.0.1:{port}/v1", **changes}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("vllm/engine-dies-after-half-a-text", id="an error after half a text"),
        pytest.param("deepseek/plain-text-line-after-a-broken-stream", id="an end without a reason"),
        pytest.param("openai/server-error-object-then-done", id="an error object in the stream"),
        pytest.param("groq/failed-call-as-an-error-event", id="a call that the provider could not read"),
    ],
)
async def test_broken_answer_is_retried_and_never_completes_a_task(agent, replay, name):
    with replay(name, replays=1) as port:
        async with agent(model=model_at(port)) as guest:
            answer = read_completed_answer(await guest.say("Hello my friend"))
    assert answer.endswith("Hello my friend")
    with replay(name) as port:
        async with agent(model=model_at(port, retries=0)) as guest:
            task = await guest.say("Hello my friend")
    assert task["status"]["state"] == "TASK_STATE_FAILED"


async def test_answer_that_a_filter_ended_is_marked_with_the_reason(agent, replay):
    with replay("azure/content-filter-after-some-text") as port:
        async with agent(model=model_at(port)) as guest:
            task = await guest.say("Hello")
    (artifact,) = task["artifacts"]
    assert read_completed_answer(task)
    assert artifact["metadata"][_TRUNCATED] is True
    assert artifact["metadata"][f"{_TRUNCATED}/reason"] == "content-filter"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("openai/refusal-in-the-deltas", "The model declined to answer: ", id="the model declines"),
        pytest.param("azure/prompt-blocked-by-the-filter", "A content filter", id="a filter refuses the prompt"),
    ],
)
async def test_refusal_fails_the_task_with_its_reason(agent, replay, name, sentence):
    with replay(name) as port:
        async with agent(model=model_at(port)) as guest:
            task = await guest.say("Hello")
    message = task["status"]["message"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert message["metadata"]["reason"] == "model_refused_answer"
    assert message["parts"][0]["text"].startswith(sentence)


async def test_overflow_in_the_words_of_any_provider_compacts_the_conversation(agent, replay):
    with replay("kimi/exceeded-model-token-limit", replays=1) as port:
        async with agent(model=model_at(port)) as guest:
            for number in range(3):
                await guest.say(f"Story {number}: " + "the sea and the ships and the wind " * 30, contextId="c")
            assert read_completed_answer(await guest.say("And now?", contextId="c"))


async def test_account_without_credit_falls_back_at_once(agent, replay, model_port):
    other = model_at(model_port, name="other")
    with replay("openai/insufficient-quota-with-status-429") as port:
        async with agent(model=model_at(port, fallbacks=[other])) as guest:
            assert read_completed_answer(await guest.say("Hello"))
            assert await guest.metric('llm_calls_total{model="offline",outcome="model_unpaid"}') == 1


async def test_usage_that_grows_in_each_event_is_charged_once(agent, replay):
    price = {"inputPerMillion": "1", "outputPerMillion": "1"}
    with replay("google-compatible/usage-grows-in-every-chunk") as port:
        async with agent(model=model_at(port, price=price)) as guest:
            task = await guest.say("Hello")
            spent = await guest.metric('llm_cost_usd_total{model="offline"}')
    assert read_completed_answer(task)
    assert spent == pytest.approx(19e-6)
