"""An OpenAI-compatible model server that answers by rules: the same request always gets the same reply.

Chat completions with and without streaming, tool calls, usage with cached tokens, and failures on demand. It
sees only the request; nothing in it knows an example or a test.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fleetwright_cli.offline.answers import Answer, answer, submission, text_of, thinking
from fleetwright_cli.offline.failing import Failing, offends, pause

_PROMPTS_REMEMBERED = 64
_CACHE_BLOCK = 128
_HANG_SECONDS = 3600.0
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_STATUS = {
    "401": (401, "invalid_api_key", "Incorrect API key provided."),
    "403": (403, "forbidden", "This key may not use the model."),
    "404": (404, "model_not_found", "The model does not exist."),
    "429": (429, "rate_limit_exceeded", "Rate limit reached."),
    "500": (500, "server_error", "The server had an error."),
    "503": (503, "overloaded", "The server is overloaded."),
    "refused": (400, "invalid_value", "The request holds what this model does not read."),
    "overflow": (400, "context_length_exceeded", "This model's maximum context length is exceeded."),
}


class OfflineModel:
    """The routes of one server; `key` makes it refuse every other bearer token."""

    def __init__(self, *, key: str | None = None) -> None:
        self._key = key
        self._failing = Failing(Counter())
        self._prompts: OrderedDict[str, None] = OrderedDict()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/healthz", lambda _: Response("ok\n")),
            ]
        )

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "offline", "object": "model", "owned_by": "offline"}]})

    async def _complete(self, request: Request) -> Response:
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            return _error("401")
        try:
            body = json.loads(await request.body())
            messages = body["messages"]
            asked = next((text_of(m) for m in reversed(messages) if m["role"] == "user"), "")
        except (ValueError, KeyError, TypeError):
            error = {
                "message": "messages: a list of objects with role and content is required",
                "code": "invalid_request",
            }
            return JSONResponse({"error": error}, 400)
        if refused := _bad_tool_name(body.get("tools") or []):
            return refused
        if any(offends(text_of(message), is_result=message["role"] == "tool") for message in messages):
            return _error("refused")
        kind = self._failing.kind(asked, str(body.get("model", "")))
        if kind in _STATUS:
            return _error(kind)
        if kind == "hang":
            await asyncio.sleep(_HANG_SECONDS)
        reply = Answer() if kind == "empty" else thinking(asked, _reply(body))
        usage = self._usage(body, reply)
        frame = {"id": f"chatcmpl-{_digest(body)}", "created": 0, "model": str(body.get("model", "offline"))}
        if body.get("stream"):
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            events = _stream(frame, reply, usage if with_usage else None, kind=kind, wait=pause(asked))
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse({**frame, "object": "chat.completion", "choices": [_choice(reply, kind)], "usage": usage})

    def _usage(self, body: Mapping[str, Any], reply: Answer) -> dict[str, Any]:
        prompt = json.dumps([body.get("tools") or [], body["messages"]])
        shared = max((_common(prompt, earlier) for earlier in self._prompts), default=0)
        self._prompts[prompt] = None
        if len(self._prompts) > _PROMPTS_REMEMBERED:
            self._prompts.popitem(last=False)
        said = reply.thought + reply.text + "".join(call.name + call.json for call in reply.calls)
        tokens_in, tokens_out = -(-len(prompt) // 4), max(1, -(-len(said) // 4))
        return {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": shared // 4 // _CACHE_BLOCK * _CACHE_BLOCK},
        }


def _reply(body: Mapping[str, Any]) -> Answer:
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    if isinstance(choice, Mapping):
        return submission(choice["function"]["name"], body["messages"], tools)
    return answer(body["messages"], tools)


def _bad_tool_name(tools: Sequence[Mapping[str, Any]]) -> Response | None:
    """Providers refuse names that are no function names, so this one does as well."""
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if not _TOOL_NAME.fullmatch(name):
            message = f"Invalid 'tools[{index}].function.name': {name!r} does not match {_TOOL_NAME.pattern}"
            return JSONResponse({"error": {"message": message, "code": "invalid_value"}}, 400)
    return None


def _common(one: str, other: str) -> int:
    """Length of the common beginning, found by halving: prompts are long and mostly alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:24]


def _error(kind: str) -> Response:
    status, code, message = _STATUS[kind]
    headers = {"retry-after": "0"} if kind == "429" else None
    return JSONResponse({"error": {"message": message, "type": code, "code": code}}, status, headers)


def _tool_calls(reply: Answer, kind: str | None) -> list[dict[str, Any]]:
    functions = [{"name": call.name, "arguments": call.json} for call in reply.calls]
    if kind == "malformed":
        name = functions[0]["name"] if functions else "unfinished"
        functions = [{"name": name, "arguments": '{"value": "never clo'}]
    return [_tool_call(index, function) for index, function in enumerate(functions)]


def _tool_call(index: int, function: Mapping[str, str]) -> dict[str, Any]:
    # Equal calls in one reply are two calls, and a call keeps its identifier when it stands first or alone.
    identity = json.dumps(function) if index == 0 else json.dumps([index, function])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:20]
    return {"index": index, "id": f"call_{digest}", "type": "function", "function": dict(function)}


def _choice(reply: Answer, kind: str | None) -> dict[str, Any]:
    calls = _tool_calls(reply, kind)
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    return {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}


async def _stream(
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
    calls = _tool_calls(reply, kind)
    for call in calls:
        yield event({"tool_calls": [call]})
    for index, word in enumerate(reply.text.split(" ") if reply.text and not calls else []):
        if kind == "cut" and index == 2:
            raise ConnectionResetError("cut on demand")
        yield event({"content": word if index == 0 else f" {word}"})
        if wait:
            await asyncio.sleep(wait)
    yield event({}, "tool_calls" if calls else "stop")
    if usage is not None:
        yield f"data: {json.dumps({**frame, 'object': 'chat.completion.chunk', 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"
