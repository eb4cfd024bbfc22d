"""The format of OpenAI's chat completions API, which many providers support."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from fleetwright_cli.offline.answers import Answer
from fleetwright_cli.offline.failing import STATUS


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request unchanged, because the rules use this format."""
    return dict(body)


def error(kind: str) -> Response:
    status, code, message = STATUS[kind]
    headers = {"retry-after": "0"} if kind == "429" else None
    return JSONResponse({"error": {"message": message, "type": code, "code": code}}, status, headers)


def calls_of(reply: Answer, kind: str | None) -> list[dict[str, Any]]:
    functions = [{"name": call.name, "arguments": call.json} for call in reply.calls]
    if kind == "malformed":
        name = functions[0]["name"] if functions else "unfinished"
        functions = [{"name": name, "arguments": '{"value": "never clo'}]
    return [_tool_call(index, function) for index, function in enumerate(functions)]


def _tool_call(index: int, function: Mapping[str, str]) -> dict[str, Any]:
    # Equal calls in one reply need different ids. The first call has the same id as if it were alone.
    identity = json.dumps(function) if index == 0 else json.dumps([index, function])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:20]
    return {"index": index, "id": f"call_{digest}", "type": "function", "function": dict(function)}


def whole(frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any], *, kind: str | None) -> dict[str, Any]:
    return {**frame, "object": "chat.completion", "choices": [_choice(reply, kind)], "usage": dict(usage)}


def _choice(reply: Answer, kind: str | None) -> dict[str, Any]:
    calls = calls_of(reply, kind)
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    return {"index": 0, "message": message, "finish_reason": _finish(calls, kind)}


def _finish(calls: Sequence[object], kind: str | None) -> str:
    return "tool_calls" if calls else "length" if kind == "length" else "stop"


async def stream(
    frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any] | None, *, kind: str | None, wait: float
) -> AsyncIterator[str]:
    def event(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**frame, 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    for word in reply.thought.split():
        yield event({"reasoning_content": f"{word} "})
        if wait:
            await asyncio.sleep(wait)
    calls = calls_of(reply, kind)
    for call in calls:
        yield event({"tool_calls": [call]})
    for index, word in enumerate(reply.text.split(" ") if reply.text and not calls else []):
        if kind == "cut" and index == 2:
            raise ConnectionResetError("cut on demand")
        yield event({"content": word if index == 0 else f" {word}"})
        if wait:
            await asyncio.sleep(wait)
    yield event({}, _finish(calls, kind))
    if usage is not None:
        yield f"data: {json.dumps({**frame, 'object': 'chat.completion.chunk', 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"
