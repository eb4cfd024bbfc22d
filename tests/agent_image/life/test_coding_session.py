"""A session of a coding agent whose process is killed twice: every call runs at most once."""

import re
from threading import Event
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from tests.support.agent.scripted_model import Step, answered
from tests.support.machine import ceiling
from tests.support.waiting import await_until
from tests.support.workspace import LocalWorkspace

pytestmark = pytest.mark.starts_first

TURNS = 12
KILLED_IN_A_MODEL_CALL = 4
KILLED_IN_A_COMMAND = 8
ENDS = {
    # The result of the last command may not be on disk yet when the process is killed. Then its outcome is unknown.
    KILLED_IN_A_MODEL_CALL: {"completed", "failed"},
    KILLED_IN_A_COMMAND: {"failed"},
}
"""The states in which the interrupted task of a turn may end."""
AUTO = {"approvals": {"edits": "Auto", "shell": "Auto"}}


class CodingModel:
    """Adds a line to a file and runs a command in each turn. The prompt alone decides about the answer."""

    def __init__(self) -> None:
        self.reached, self.goes_on = Event(), Event()
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> StreamingResponse:
        messages = (await request.json())["messages"]
        asked = max(n for n, each in enumerate(messages) if "Turn " in str(each["content"]) and each["role"] == "user")
        (turn,) = re.findall(r"Turn (\d+)", str(messages[asked]["content"]))
        number, done = int(turn), sum(each["role"] == "tool" for each in messages[asked:])
        if number == KILLED_IN_A_MODEL_CALL and done == 3:
            self.reached.set()
            await anyio.to_thread.run_sync(self.goes_on.wait, ceiling())
        return answered(_step(number, done), number * 10 + done)


def _step(turn: int, done: int) -> Step:
    """Return the next step of a turn that has this number of results."""
    command = f"echo {turn} >> calls" + ("; sleep 60" if turn == KILLED_IN_A_COMMAND else "")
    last = f"line {turn - 1}\n"
    steps: list[Step] = [
        [("read_file", {"path": "lines"})],
        [("edit_file", {"path": "lines", "old_text": last, "new_text": f"{last}line {turn}\n"})],
        [("bash", {"command": command})],
        f"Turn {turn} is done.",
    ]
    return steps[done]


async def test_session_with_two_kills_repeats_no_call(
    agent_process: Any, states: Any, coding: Any, workspace: LocalWorkspace
) -> None:
    (workspace.root / "lines").write_text("line 0\n")
    model, calls = CodingModel(), workspace.root / "calls"
    context: dict[str, str] = {}
    interrupted: tuple[int, dict[str, Any]] | None = None
    url = str(workspace.http.base_url).rstrip("/")
    with coding(model, workspace={"url": url, **AUTO}) as config:
        config["model"]["contextWindow"] = 200_000
        for turns, killed in (
            (range(1, KILLED_IN_A_MODEL_CALL), KILLED_IN_A_MODEL_CALL),
            (range(KILLED_IN_A_MODEL_CALL + 1, KILLED_IN_A_COMMAND), KILLED_IN_A_COMMAND),
            (range(KILLED_IN_A_COMMAND + 1, TURNS + 1), None),
        ):
            async with agent_process(**config) as guest:
                if interrupted is not None:
                    turn, task = interrupted
                    ended = await guest.rested(task)
                    assert states(ended) in ENDS[turn], ended["status"]
                for turn in turns:
                    done = await guest.say(f"Turn {turn}", **context)
                    assert states(done) == "completed", (turn, done["status"])
                    context = {"contextId": done["contextId"]}
                if killed is not None:
                    interrupted = killed, await guest.say(f"Turn {killed}", now=True, **context)
                    await _reached(model, calls, killed)
                    await guest.kill()
                    model.goes_on.set()
    assert calls.read_text().split() == [str(turn) for turn in range(1, TURNS + 1)]
    assert (workspace.root / "lines").read_text() == "".join(f"line {turn}\n" for turn in range(TURNS + 1))


async def _reached(model: CodingModel, calls: Any, turn: int) -> None:
    """Wait until the turn is where its process is killed."""
    if turn == KILLED_IN_A_MODEL_CALL:
        await await_until(model.reached.is_set, f"turn {turn} makes its last model call")
    await await_until(lambda: str(turn) in calls.read_text().split(), f"the command of turn {turn} runs")
