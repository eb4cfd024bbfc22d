"""Models that refuse, fail, hang, never end or return too much, over A2A: each task ends in time with a typed reason.

`tests/agent_image/turn/test_turn.py` covers the number of retries and their backoff.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from e2e.cluster.ports import free_port
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from tests.support.waiting import await_until

from fleetwright_cli.offline.model import OfflineModel

TRUNCATED = "https://fleetwright.dev/a2a/truncated/v1"


def text_of(task):
    return "".join(part.get("text", "") for artifact in task.get("artifacts", ()) for part in artifact["parts"])


def model_at(port, **changes):
    about = {"name": "offline", "contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
    return {**about, "baseUrl": f"http://127.0.0.1:{port}/v1", **changes}


def speaking(pieces):
    """A model that streams these pieces of an answer."""

    async def events() -> AsyncIterator[str]:
        frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk"}
        async for piece in pieces():
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            yield f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"
        ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
        yield f"data: {json.dumps({**frame, 'choices': [ended]})}\n\ndata: [DONE]\n\n"

    async def answer(_):
        return StreamingResponse(events(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


class Busy:
    """A model that rejects its first call with a Retry-After header, and then answers."""

    def __init__(self):
        self.calls = 0
        self._app = OfflineModel().app()

    async def __call__(self, scope, receive, send):
        self.calls += scope["type"] == "http"
        if self.calls != 1:
            await self._app(scope, receive, send)
            return
        error = {"error": {"message": "Come back later."}}
        await JSONResponse(error, 503, headers={"retry-after": "2"})(scope, receive, send)


async def test_model_retry_wait_is_a_status_update(agent, serve, message):
    with serve(Busy()) as port:
        async with agent(model=model_at(port)) as guest:
            events = [event async for event in guest.events("SendStreamingMessage", message("Hello"))]
    updates = [event["statusUpdate"]["status"] for event in events if "statusUpdate" in event]
    told = [part["text"] for each in updates for part in each.get("message", {}).get("parts", ()) if "text" in part]
    assert [text for text in told if text.endswith("It is called again in 2 s.")], told
    assert updates[-1]["state"] == "TASK_STATE_COMPLETED"


async def test_log_level_of_a_process_follows_its_file(agent_process, mounted, tmp_path):
    log, file = tmp_path / "log", mounted.layout.log_level_file
    async with agent_process(log=str(log)) as guest:
        await guest.say("Hello")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("error")
        await await_until(lambda: b"the log level is error now" in log.read_bytes(), "the log level changes")
        await guest.say("Hello again")
        await guest.leave()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["message"] for line in lines].count("task rests") == 1


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        pytest.param("401", "model_unauthorized", id="refuses the key"),
        pytest.param("404", "model_not_found", id="does not know the model"),
        pytest.param("429", "model_rate_limited", id="has no room, and says for how long"),
        pytest.param("overflow", "model_context_overflow", id="finds the prompt too long, however short it is"),
        pytest.param("empty", "model_empty_answer", id="says nothing"),
    ],
)
async def test_r4_failing_model_fails_the_task_with_a_typed_reason(agent, states, marker, reason):
    async with agent() as guest:
        task = await guest.say(f"Hello there my friend [[fail:{marker}]]")
        assert states(task) == "failed"
        message = task["status"]["message"]
        assert message["metadata"]["reason"] == reason
        assert "127.0.0.1" not in json.dumps(message)
        assert states(await guest.say("Hello there", contextId=task["contextId"])) == "completed"


async def test_r4_unreachable_model_fails_the_task(agent, states):
    port = free_port()
    async with agent(model=model_at(port)) as guest:
        task = await guest.say("Hello there")
    assert states(task) == "failed"
    assert task["status"]["message"]["metadata"]["reason"] == "model_unreachable"
    assert str(port) not in json.dumps(task["status"]["message"])


@pytest.mark.parametrize("kind", ["500", "cut", "malformed"])
async def test_r4_transient_failure_is_retried_and_answered_once(agent, states, house, kind):
    async with agent() as guest:
        task = await guest.say(f"Book table for 2 [[fail:{kind}*1]]")
    assert states(task) == "completed"
    assert text_of(task).count("A table for 2 is booked.") == 1
    assert house.ledger == ["table for 2"]


async def for_ever():
    while True:
        yield "more and more "
        await asyncio.sleep(0.01)


async def then_silent():
    yield "So far, "
    yield "so good."
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        pytest.param(for_ever, "more and more more", id="never ends"),
        pytest.param(then_silent, "So far, so good.", id="goes silent after its first words"),
    ],
)
async def test_r4_unfinished_answer_keeps_its_beginning(agent, states, serve, pieces, kept):
    with serve(speaking(pieces)) as port:
        async with agent(model=model_at(port), limits={"maxTurnSeconds": 6}) as guest:
            task = await guest.say("Hello there")
    assert states(task) == "failed"
    assert task["status"]["message"]["metadata"]["reason"] == "deadline"
    assert text_of(task).startswith(kept)


async def test_r4_answer_of_ten_megabytes_is_truncated_and_marked(agent, states, serve):
    async def ten_megabytes():
        for _ in range(160):
            yield "x" * 65_536

    with serve(speaking(ten_megabytes)) as port:
        async with agent(model=model_at(port)) as guest:
            task = await guest.say("Hello there")
    assert states(task) == "completed"
    assert len(text_of(task)) <= 4 * 1024 * 1024
    assert task["artifacts"][0]["metadata"][TRUNCATED] is True
