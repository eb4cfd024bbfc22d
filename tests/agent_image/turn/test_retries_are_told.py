"""Failed model calls: the log has the provider's own text, and callers get a status message for a wait."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from fleetwright_agent.protocol.frames import RetryWait
from fleetwright_agent.turn.providers.chat_completions.errors import CompletionError
from fleetwright_agent.turn.providers.failures import provider_text


def failing(status: int, sentence: str, headers: dict[str, str]) -> Starlette:
    async def refuse(_: Request) -> JSONResponse:
        return JSONResponse({"error": {"message": sentence}}, status, headers)

    return Starlette(routes=[Route("/v1/chat/completions", refuse, methods=["POST"])])


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        pytest.param(400, {}, [], id="a refusal is not tried again"),
        pytest.param(429, {"retry-after": "7"}, [7, 7], id="a rate limit"),
        pytest.param(503, {"retry-after": "3"}, [3, 3], id="an overload"),
        pytest.param(503, {"retry-after": "0"}, [], id="a wait of nothing is not told"),
    ],
)
async def test_failed_model_call_is_logged_and_its_wait_reported(
    config, talking, serve, caplog, status, headers, waits
):
    with serve(failing(status, "Unsupported value: 'x' " + "y" * 900, headers)) as port:
        async with talking(config(model={"baseUrl": f"http://127.0.0.1:{port}/v1"})) as talk:
            said = await talk.say("Hello")
    assert said.failure is not None
    assert [frame.seconds for frame in said.of(RetryWait)] == waits
    told = [record.__dict__ for record in caplog.records if record.getMessage().startswith("a model call failed")]
    assert [each["attempt"] for each in told] == ([1] if status == 400 else [1, 2, 3])
    assert all("Unsupported value: 'x'" in each["provider"] and len(each["provider"]) <= 500 for each in told)
    assert "waitSeconds" not in told[-1]


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        pytest.param("No  such\nmodel.", "No such model.", id="one line"),
        pytest.param("x" * 500, "x" * 500, id="as long as it may be"),
        pytest.param("a " * 240 + "sk-" + "z" * 40, "a " * 240 + "…", id="a key at the limit is left out whole"),
        pytest.param("z" * 501, "…", id="one long word"),
    ],
)
def test_provider_text_is_truncated_between_words(text: str, logged: str) -> None:
    assert provider_text(CompletionError(text)) == logged
