"""A model server that answers with the steps of a script, for agents with a workspace."""

import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

Step = str | list[tuple[str, dict[str, Any]]]
READ = ("read_file", {"path": "app.py"})
EDIT = ("edit_file", {"path": "app.py", "old_text": "two", "new_text": "2"})


class ScriptedModel:
    """Answers with the next step of a script: a text, or calls of tools. It records the prompts."""

    def __init__(self, *steps: Step, reports_usage: bool = True) -> None:
        self._reports_usage = reports_usage
        self._steps = iter(enumerate(steps))
        self.prompts: list[list[dict[str, Any]]] = []
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> StreamingResponse:
        self.prompts.append((await request.json())["messages"])
        number, step = next(self._steps)
        return answered(step, number, reports_usage=self._reports_usage)

    def results(self) -> list[str]:
        """Return the tool results in the newest prompt."""
        return [str(each["content"]) for each in self.prompts[-1] if each["role"] == "tool"]


def answered(step: Step, number: int, *, reports_usage: bool = True) -> StreamingResponse:
    """Return a text, or calls of tools, as a stream. Args: `number` makes the ids of the calls unique."""
    calls = [] if isinstance(step, str) else step
    delta: dict[str, Any] = {"content": step} if isinstance(step, str) else {}
    if calls:
        delta["tool_calls"] = [
            {
                "index": n,
                "id": f"call-{number}-{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
    frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk"}
    choices = [
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"},
    ]
    usage = {"prompt_tokens": 100 + number, "completion_tokens": 5, "total_tokens": 105 + number}
    events = [{**frame, "choices": [choice]} for choice in choices]
    if reports_usage:
        events.append({**frame, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return StreamingResponse(iter([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")
