"""The format of Google's `generateContent` API: parts instead of messages, calls without ids, calls never split."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from fleetwright_cli.offline.answers import Answer
from fleetwright_cli.offline.chat_completions import calls_of
from fleetwright_cli.offline.failing import STATUS


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a request. The caller has added `model` and `stream` from the URL to the body."""
    system = _text((body.get("systemInstruction") or {}).get("parts") or ())
    messages = [{"role": "system", "content": system}] if system else []
    for turn, content in enumerate(body["contents"]):
        messages += _read_content(content, turn)
    declared = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
    tools = [{"type": "function", "function": _function(each)} for each in declared]
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = calling.get("allowedFunctionNames") or ()
    forced = {"tool_choice": {"type": "function", "function": {"name": allowed[0]}}} if allowed else {}
    asked = {"stream": body["stream"], "stream_options": {"include_usage": True}}
    return {"model": body["model"], "messages": messages, "tools": tools, **forced, **asked}


def _read_content(content: Mapping[str, Any], turn: int) -> Iterator[dict[str, Any]]:
    parts = content["parts"]
    if content.get("role") == "model":
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = [
            {
                "id": f"{turn}-{number}",
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call.get("args") or {}, ensure_ascii=False)},
            }
            for number, call in enumerate(made)
        ]
        yield {"role": "assistant", "content": _text(parts), **({"tool_calls": calls} if calls else {})}
        return
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    for number, result in enumerate(results):
        # Results follow the calls directly, in the same order.
        yield {"role": "tool", "tool_call_id": f"{turn - 1}-{number}", "content": _result(result["response"])}
    # Clients combine consecutive user messages into one, with a part each.
    yield from ({"role": "user", "content": text} for part in parts if (text := _text([part])))


def _result(response: Mapping[str, Any]) -> str:
    return str(next(iter(response.values()), "")) if len(response) == 1 else json.dumps(response)


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def _function(declared: Mapping[str, Any]) -> dict[str, Any]:
    # Google accepts both spellings of a field, and its Python client uses the second one.
    schema = declared.get("parametersJsonSchema") or declared.get("parameters_json_schema")
    parameters = schema or _lower(declared.get("parameters") or {"type": "object"})
    return {"name": declared["name"], "description": declared.get("description", ""), "parameters": parameters}


def _lower(schema: Any) -> Any:
    """Convert the upper-case types of a schema to lower case."""
    if isinstance(schema, list):
        return [_lower(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _lower(value)
        for key, value in schema.items()
    }


def error(kind: str) -> Response:
    status, _, message = STATUS[kind]
    if kind == "overflow":
        message = "The input token count (250000) exceeds the maximum number of tokens allowed (200000)."
    if kind == "401":
        status, message = 400, "API key not valid. Please pass a valid API key."
    said = {"code": status, "message": message, "status": "INVALID_ARGUMENT" if status == 400 else "UNAVAILABLE"}
    return JSONResponse({"error": said}, status)


def whole(frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any], *, kind: str | None) -> dict[str, Any]:
    return {**_chunk(frame, [part for part, _ in _parts(reply, kind)], _finish(kind)), "usageMetadata": _usage(usage)}


def _finish(kind: str | None) -> str:
    return "MAX_TOKENS" if kind == "length" else "STOP"


def _chunk(frame: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": frame["model"], "responseId": frame["id"]}


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    return {
        "promptTokenCount": usage["prompt_tokens"],
        "candidatesTokenCount": usage["completion_tokens"],
        "totalTokenCount": usage["total_tokens"],
        "cachedContentTokenCount": usage["prompt_tokens_details"]["cached_tokens"],
    }


def _parts(reply: Answer, kind: str | None) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each part, and whether it belongs to the answer's text."""
    for word in reply.thought.split():
        yield {"text": f"{word} ", "thought": True}, False
    if reply.calls:
        for call in calls_of(reply, None):
            function = call["function"]
            yield {"functionCall": {"name": function["name"], "args": json.loads(function["arguments"])}}, False
    elif kind != "empty":
        for at, word in enumerate(reply.text.split(" ") if reply.text else ()):
            yield {"text": word if at == 0 else f" {word}"}, True


async def stream(
    frame: Mapping[str, Any], reply: Answer, usage: Mapping[str, Any] | None, *, kind: str | None, wait: float
) -> AsyncIterator[str]:
    said = 0
    if kind == "malformed":
        yield _event({**_chunk(frame, [], "MALFORMED_FUNCTION_CALL"), "usageMetadata": _usage(usage or {})})
        return
    for part, is_text in _parts(reply, kind):
        if kind == "cut" and said == 2:
            raise ConnectionResetError("cut on demand")
        said += is_text
        yield _event(_chunk(frame, [part]))
        if wait:
            await asyncio.sleep(wait)
    yield _event({**_chunk(frame, [{"text": ""}], _finish(kind)), "usageMetadata": _usage(usage or {})})


def _event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"
