"""A LiteLLM proxy between an agent and its model: streaming, tool calls, usage and failures pass through intact."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from e2e.cluster.ports import free_port
from tests.agent_image.life.conftest import agent, house, house_port, message, model_port, write  # noqa: F401 - fixtures
from tests.support.agent.reports import read_completed_answer, read_cost
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

KEY = "sk-of-the-gateway"
KEY_FILE = "secrets/gateway/api-key"


def settings(model_port: int) -> dict[str, Any]:  # noqa: F811 - the port of the fixture
    there = {"model": "openai/offline", "api_base": f"http://127.0.0.1:{model_port}/v1", "api_key": "none"}
    gone = {**there, "api_base": "http://127.0.0.1:9/v1"}
    return {
        "model_list": [
            {"model_name": "offline", "litellm_params": there},
            {"model_name": "gone", "litellm_params": gone},
            {"model_name": "rescued", "litellm_params": gone},
        ],
        "router_settings": {"disable_cooldowns": True, "num_retries": 0, "fallbacks": [{"rescued": ["offline"]}]},
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "general_settings": {"master_key": KEY},
    }


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory,
    python_environment: Callable[[str], Path],
    model_port: int,  # noqa: F811 - the fixture
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(yaml.safe_dump(settings(model_port)))
    port = free_port()
    programs = python_environment("litellm")
    # LiteLLM would otherwise fetch its price table from the network.
    alone = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [programs / "litellm", "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=alone, cwd=folder, stdout=log, stderr=log)
    try:
        await_liveness(process, f"http://127.0.0.1:{port}", folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(ceiling())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_liveness(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    def is_alive() -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/health/liveliness", timeout=ceiling()).status_code == 200
        return False

    wait_until(is_alive, "the proxy is alive", shown=log.read_text, pause=0.2)


@pytest.fixture
def through(gateway: str, mounted: Any) -> Callable[..., dict[str, Any]]:
    """Return the agent's declaration of a model behind the gateway."""
    file = mounted.layout.secret(KEY_FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(KEY)

    def model(name: str = "offline", **changes: Any) -> dict[str, Any]:
        limits = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        price = {"inputPerMillion": "1", "outputPerMillion": "2"}
        return {"name": name, "baseUrl": gateway, "apiKeyFile": KEY_FILE, "price": price, **limits, **changes}

    return model


pytestmark = [pytest.mark.starts_first, pytest.mark.exhaustive]


async def test_litellm_passes_streaming_tools_usage_and_cost(agent, house, message, through):  # noqa: F811 - fixtures
    async with agent(model=through()) as guest:
        asked = message("Tell me a story [[long:60]] [[pause:0.02]]")
        events = [event async for event in guest.events("SendStreamingMessage", asked)]
        assert len([event for event in events if "artifactUpdate" in event]) > 2, "the gateway streams the answer"
        booked = await guest.say("Book table for 2; charge card 5 [[together]]")
        assert "A table for 2 is booked" in read_completed_answer(booked)
        usage = read_cost(booked)["usage"]
        dollars = (usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6
        assert read_cost(booked)["costUsd"] == pytest.approx(dollars, abs=1e-6)
        assert await guest.metric('llm_calls_total{model="offline",outcome="ok"}') == 3
    assert sorted(house.ledger) == ["charged 5", "table for 2"]


@pytest.mark.parametrize(
    ("text", "less"),
    [
        pytest.param("Tell me a story [[long:60]]", 0, id="of an answer"),
        # The gateway drops `"content": null, ` from the message with the tool calls.
        pytest.param("Book table for 2; charge card 5 [[together]]", 4, id="of one with tools"),
    ],
)
async def test_litellm_usage_and_cost_match_a_direct_turn(agent, through, text, less):  # noqa: F811 - fixtures
    told = []
    # Session memory would add the first conversation to the second prompt.
    for changes in ({}, {"model": through()}):
        async with agent(memory={"sessions": {"enabled": False}}, **changes) as guest:
            told.append(read_cost(await guest.say(text)))
    straight, behind = told
    assert straight["usage"]["input_tokens"] - behind["usage"]["input_tokens"] == less
    assert straight["usage"]["output_tokens"] == behind["usage"]["output_tokens"] > 0
    assert straight["costUsd"] - behind["costUsd"] == pytest.approx(less / 1e6, abs=1e-9)


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        pytest.param("429", "model_rate_limited", id="a rate limit"),
        pytest.param("503", "model_error", id="an overloaded provider"),
        pytest.param("overflow", "model_context_overflow", id="a prompt that is too long"),
        pytest.param("malformed", "model_malformed_tool_call", id="half a call of a tool"),
    ],
)
async def test_litellm_failures_keep_their_reason(agent, house, through, marker, reason):  # noqa: F811 - fixtures
    async with agent(model=through()) as guest:
        failed = await guest.say(f"Book table for 2 [[fail:{marker}]]")
        assert failed["status"]["message"]["metadata"]["reason"] == reason
    assert house.ledger == []


async def test_litellm_transient_rate_limit_is_retried(agent, through):  # noqa: F811 - fixtures
    async with agent(model=through()) as guest:
        assert "Hello" in read_completed_answer(await guest.say("Hello my friend [[fail:429*1]]"))
        assert await guest.metric('llm_calls_total{model="offline",outcome="model_rate_limited"}') == 1


async def test_litellm_and_agent_fallbacks_both_answer(agent, through):  # noqa: F811 - fixtures
    async with agent(model=through("rescued")) as guest:
        assert "Hello" in read_completed_answer(await guest.say("Hello"))
        assert await guest.metric("model_fallbacks_total") == 0, "the gateway's own is its own affair"
    async with agent(model=through("gone", fallbacks=[through()])) as guest:
        assert "Hello" in read_completed_answer(await guest.say("Hello"))
        assert await guest.metric('model_fallbacks_total{from="gone"') == 1
