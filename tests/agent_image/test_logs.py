"""Logs: they are JSON lines, and contain neither messages nor credentials of callers."""

import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from fleetwright_agent.protocol.frames import Frame, Text, TurnFailed, TurnRequest
from fleetwright_agent.telemetry.logs import configure


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure("debug", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], root.level = handlers, level


async def test_logs_omit_contents_and_credentials_at_every_level(
    open_door: Callable[..., Any], lines: Callable[[], list[dict[str, Any]]]
) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("sentinel-answer")
        raise TurnFailed("model_timeout", "The model did not answer in time.")

    door = await open_door(script)
    await door.say("sentinel-question")
    wrong = {"message": {"messageId": 7, "role": "ROLE_USER", "parts": [{"text": {"sentinel-shape": 1}}]}}
    await door.call("SendMessage", wrong)
    await door.call("sentinel-method", {})
    await door.call("ListTasks", {"statusTimestampAfter": "sentinel-time"})
    async with door.http(None) as http:
        await http.post("/a2a", json={}, headers={"Authorization": "Bearer sentinel-token"})
    written = lines()
    assert any(line["message"] == "turn failed" and line["reason"] == "model_timeout" for line in written)
    assert "sentinel" not in json.dumps(written)
    # httpx in this process made the requests above.
    assert {line["logger"].partition(".")[0] for line in written} == {"fleetwright_agent"}
    assert "token-of-default" not in json.dumps(written)


def test_logs_hold_a_traceback_in_one_line(lines: Callable[[], list[dict[str, Any]]]) -> None:
    try:
        raise ValueError("broken\nbadly")
    except ValueError:
        logging.getLogger("fleetwright_agent.x").exception("failed", extra={"task": "t"})
    (line,) = lines()
    assert (line["level"], line["logger"], line["message"], line["task"]) == (
        "error",
        "fleetwright_agent.x",
        "failed",
        "t",
    )
    assert "ValueError: broken" in line["traceback"]
