"""The context window that a provider names in an overflow: the agent adopts it, and logs it."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.turn.compaction.policy import room

CONFIGURED = 128_000


def refusing(sentence: str) -> Starlette:
    """A model server for which every prompt is too long."""

    async def refuse(_: Request) -> JSONResponse:
        return JSONResponse({"error": {"message": sentence, "code": "context_length_exceeded"}}, 400)

    return Starlette(routes=[Route("/v1/chat/completions", refuse, methods=["POST"])])


@pytest.mark.parametrize(
    ("sentence", "learned"),
    [
        pytest.param(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            8192,
            id="openai and vllm",
        ),
        pytest.param("prompt is too long: 250000 tokens > 100000 maximum", 100_000, id="anthropic"),
        pytest.param(
            "The input token count (70000) exceeds the maximum number of tokens allowed (65536).", 65_536, id="google"
        ),
        pytest.param("the request exceeds the available context size (4096 tokens)", 4096, id="llama.cpp"),
        pytest.param(
            "This model's maximum prompt length is 32,768 but the request contains 537812 tokens.", 32_768, id="xai"
        ),
        pytest.param("This model's maximum context length is 200000 tokens.", None, id="a larger one teaches nothing"),
        pytest.param("This model's maximum context length is exceeded.", None, id="no number"),
    ],
)
async def test_overflow_teaches_the_window_that_the_error_names(config, talking, serve, caplog, sentence, learned):
    with serve(refusing(sentence)) as port:
        model = {"baseUrl": f"http://127.0.0.1:{port}/v1", "contextWindow": CONFIGURED, "retries": 0}
        async with talking(config(model=model, compaction={"mode": "Off"})) as talk:
            said = await talk.say("Hello")
    assert said.failure.reason == "model_context_overflow"
    told = [record.__dict__ for record in caplog.records if "smaller than model.contextWindow" in record.getMessage()]
    assert [(each["configured"], each["learned"]) for each in told] == ([(CONFIGURED, learned)] if learned else [])


@pytest.mark.parametrize(
    ("named", "prompt"),
    [
        pytest.param(8192, 4096, id="smaller"),
        pytest.param(4096, 2048, id="no larger than an answer: half of it is for the prompt"),
        pytest.param(200_000, CONFIGURED - 4096, id="larger"),
        pytest.param(0, CONFIGURED - 4096, id="nothing"),
    ],
)
def test_room_follows_the_learned_window(named, prompt):
    document = {"name": "m", "baseUrl": "http://m", "contextWindow": CONFIGURED, "maxOutputTokens": 4096}
    endpoint = Endpoint.model_validate({**document, "timeoutSeconds": 5})
    endpoint.learn(named)
    assert room(endpoint) == prompt
