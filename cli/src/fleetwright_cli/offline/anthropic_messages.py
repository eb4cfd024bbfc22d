"""The format of Anthropic's messages API: content blocks, tool results in the user's turn, separate cached tokens."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from fleetwright_cli.offline.answers import Answer
from fleetwright_cli.offline.chat_completions import calls_of
from fleetwright_cli.offline.failing import STATUS

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    system = _text(body.get("system") or "")
    messages = [{"role": "system", "content": system}] if system else []
    for message in body["messages"]:
        messages += _read_message(message)
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in body.get("tools") or ()
    ]
    choice = body.get("tool_choice") or {}
    forced = {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}} if "name" in choice else {}
    asked = {"stream": body.get("stream"), "stream_options": {"include_usage": True}}
    return {
        "model": body["model"],
        "messages": messages,
        "tools": tools,
        **forced,
        **asked,
        "caches": "cache_control" in body or any(map(_ends_a_cache, body["messages"])),
    }


def _read_message(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message["content"]
    blocks: Sequence[Mapping[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "assistant":
        used = [block for block in blocks if block["type"] == "tool_use"]
        calls = [{"id": block["id"], "type": "function", "function": _function(block)} for block in used]
        yield {"role": "assistant", "content": _text(blocks), **({"tool_calls": calls} if calls else {})}
        return
    for block in blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _text(block.get("content") or "")}
    # Clients combine consecutive user messages into one, with a block each.
    yield from ({"role": "user", "content": text} for block in blocks if (text := _text([block])))


def _ends_a_cache(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any("cache_control" in block for block in content)


def _function(block: Mapping[str, Any]) -> dict[str, str]:
    return {"name": block["name"], "arguments": json.dumps(block["input"], ensure_ascii=False)}


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in content if block["type"] == "text")


def error(kind: str) -> Response:
    status, _, message = STATUS[kind]
    if kind == "overflow":
        message = "prompt is too long: 250000 tokens > 200000 maximum"
    headers = {"retry-after": "0"} if kind == "429" else None
    said = {"type": _KINDS.get(status, "invalid_request_error"), "message": message}
    return JSONResponse({"type": "error", "error": said}, status, headers)


def whole(frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any], *, kind: str | None) -> dict[str, Any]:
    calls = calls_of(reply, kind)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text and not calls else []
    blocks += [{**_started(call), "input": json.loads(call["function"]["arguments"])} for call in calls]
    return {**_message(frame), "content": blocks, "stop_reason": _stop(calls, kind), "usage": _usage(usage)}


def _message(frame: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": frame["id"], "type": "message", "role": "assistant", "model": frame["model"], "stop_sequence": None}


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    read_tokens = usage["prompt_tokens_details"]["cached_tokens"]
    return {
        "input_tokens": usage["prompt_tokens"] - read_tokens,
        "cache_read_input_tokens": read_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage["completion_tokens"],
    }


def _started(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}


def _stop(calls: Sequence[object], kind: str | None) -> str:
    return "tool_use" if calls else "max_tokens" if kind == "length" else "end_turn"


async def stream(
    frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any] | None, *, kind: str | None, wait: float
) -> AsyncIterator[str]:
    used, calls = _usage(usage or {}), calls_of(reply, kind)
    opened = {**_message(frame), "content": [], "stop_reason": None, "usage": {**used, "output_tokens": 1}}
    yield _event("message_start", message=opened)
    said = 0
    for index, (block, deltas) in enumerate(_blocks(reply, calls)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            if kind == "cut" and said == 2:
                raise ConnectionResetError("cut on demand")
            said += 1
            yield _event("content_block_delta", index=index, delta=delta)
            if wait:
                await asyncio.sleep(wait)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": _stop(calls, kind), "stop_sequence": None}, usage=used)
    yield _event("message_stop")


def _blocks(reply: Answer, calls: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.thought:
        thoughts = [{"type": "thinking_delta", "thinking": f"{word} "} for word in reply.thought.split()]
        signed = {"type": "signature_delta", "signature": "offline"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if reply.text and not calls:
        words = reply.text.split(" ")
        deltas = [{"type": "text_delta", "text": word if at == 0 else f" {word}"} for at, word in enumerate(words)]
        yield {"type": "text", "text": ""}, deltas
    for call in calls:
        yield _started(call), [{"type": "input_json_delta", "partial_json": call["function"]["arguments"]}]


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"
