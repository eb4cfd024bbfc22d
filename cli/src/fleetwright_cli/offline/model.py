"""A model server that answers by rules: the same request always gets the same reply.

It supports chat completions, Anthropic's messages and Google's contents. Each can be streamed. It also supports tool
calls, usage with cached tokens, and failures on demand. The rules are general: they contain no special cases for the
examples and tests of this repository.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.offline import anthropic_messages, chat_completions, google_contents
from fleetwright_cli.offline.answers import Answer, answer, halved, newest_said, submission, text_of, thinking
from fleetwright_cli.offline.failing import STATUS, Failing, offends, pause
from fleetwright_cli.offline.recording import Recording

_PROMPTS_REMEMBERED = 64
_CACHE_BLOCK = 128
_HANG_SECONDS = 3600.0
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Wire(Protocol):
    """The format of one provider. The rules that produce replies are the same for all."""

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a request to the format of chat completions."""
        ...

    def error(self, kind: str) -> Response: ...

    def whole(
        self, frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any], *, kind: str | None
    ) -> dict[str, Any]: ...

    def stream(
        self,
        frame: Mapping[str, Any],
        reply: Answer,
        usage: Mapping[str, Any] | None,
        *,
        kind: str | None,
        wait: float,
    ) -> AsyncIterator[str]: ...


class OfflineModel:
    """The routes of one server."""

    def __init__(
        self, *, key: str | None = None, recording: Recording | None = None, replays: int | None = None
    ) -> None:
        """Args:
        key: If it is set, only this bearer token is accepted.
        recording: A response that is sent in place of the answers by rules, at every path.
        replays: The number of requests that get the recording; None for all.
        """
        self._key = key
        self._recording = recording
        self._replays = replays
        self._failing = Failing(Counter())
        self._prompts: OrderedDict[str, None] = OrderedDict()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/messages", self._message, methods=["POST"]),
                Route("/v1beta/models/{model}", self._generate, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/healthz", lambda _: Response("ok\n")),
                *([Route("/{path:path}", self._replay_recording, methods=["POST"])] if self._recording else []),
            ]
        )

    async def _replay_recording(self, _: Request) -> Response:
        """Answer at a path of another provider, such as `/openai/v1/chat/completions` of Azure."""
        return self._take_recording() or Response(status_code=404)

    def _take_recording(self) -> Response | None:
        """Return the recorded response. Return None without a recording, or if enough requests have got it."""
        if self._recording is None or self._replays == 0:
            return None
        if self._replays is not None:
            self._replays -= 1
        return self._recording.build_response()

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "offline", "object": "model", "owned_by": "offline"}]})

    async def _complete(self, request: Request) -> Response:
        return await self._answer(request, chat_completions)

    async def _message(self, request: Request) -> Response:
        return await self._answer(request, anthropic_messages)

    async def _generate(self, request: Request) -> Response:
        model, _, verb = request.path_params["model"].partition(":")
        body = {**read_json(await request.body()), "model": model, "stream": verb == "streamGenerateContent"}
        return await self._answer(request, google_contents, body)

    async def _answer(self, request: Request, wire: Wire, document: dict[str, Any] | None = None) -> Response:
        if self._key is not None and self._key not in _keys(request):
            return wire.error("401")
        if (recorded := self._take_recording()) is not None:
            return recorded
        try:
            body = wire.read(document or read_json(await request.body()))
            messages = body["messages"]
            newest = newest_said(messages)
            asked = text_of(messages[newest]) if newest >= 0 else ""
        except (ValueError, KeyError, TypeError):
            error = {
                "message": "messages: a list of objects with role and content is required",
                "code": "invalid_request",
            }
            return JSONResponse({"error": error}, 400)
        if refused := _bad_tool_name(body.get("tools") or []):
            return refused
        if any(offends(text_of(message), is_result=message["role"] == "tool") for message in messages):
            return wire.error("refused")
        kind = self._failing.kind(asked, str(body.get("model", "")))
        if kind in STATUS:
            return wire.error(kind)
        if kind == "hang":
            await asyncio.sleep(_HANG_SECONDS)
        reply = Answer() if kind == "empty" else thinking(asked, _reply(body))
        if kind == "length":
            reply = halved(reply)
        usage = self._usage(body, reply)
        frame = {"id": f"chatcmpl-{_digest(body)}", "created": 0, "model": str(body.get("model", "offline"))}
        if body.get("stream"):
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            events = wire.stream(frame, reply, usage if with_usage else None, kind=kind, wait=pause(asked))
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(wire.whole(frame, reply, usage, kind=kind))

    def _usage(self, body: Mapping[str, Any], reply: Answer) -> dict[str, Any]:
        prompt = json.dumps([body.get("tools") or [], body["messages"]])
        known = self._prompts if body.get("caches", True) else ()
        shared = max((_common(prompt, earlier) for earlier in known), default=0)
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


def _keys(request: Request) -> list[str]:
    """Return the keys from the headers that the providers use."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return [bearer, request.headers.get("x-api-key", ""), request.headers.get("x-goog-api-key", "")]


def _reply(body: Mapping[str, Any]) -> Answer:
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    if isinstance(choice, Mapping):
        return submission(choice["function"]["name"], body["messages"], tools)
    return answer(body["messages"], tools)


def _bad_tool_name(tools: Sequence[Mapping[str, Any]]) -> Response | None:
    """Refuse invalid function names, as providers do."""
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if not _TOOL_NAME.fullmatch(name):
            message = f"Invalid 'tools[{index}].function.name': {name!r} does not match {_TOOL_NAME.pattern}"
            return JSONResponse({"error": {"message": message, "code": "invalid_value"}}, 400)
    return None


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix, by binary search because prompts are long and mostly equal."""
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
