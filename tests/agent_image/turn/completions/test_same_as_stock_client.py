"""Compares the client for chat completions with LangChain's: the same requests, and the same messages from a stream."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx2
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import SecretStr

from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.turn.providers.openai import build

_RUN = UUID(int=7)
_PIXEL = "iVBORw0KGgo="
_DONE = b"data: [DONE]\n\n"


class _Provider(httpx2.AsyncBaseTransport):
    """Answers each request with the same bytes, and keeps the request."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.request: httpx2.Request | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.request = request
        return httpx2.Response(200, content=self.answer, headers={"content-type": "text/event-stream"}, request=request)

    @property
    def body(self) -> Any:
        assert self.request is not None
        return json.loads(self.request.content)


def _endpoint(**fields: Any) -> Endpoint:
    given = {"name": "m", "baseUrl": "http://model/v1", "contextWindow": 9000, "maxOutputTokens": 50}
    return Endpoint.model_validate({**given, "timeoutSeconds": 5, **fields})


def _ours(endpoint: Endpoint, client: httpx2.AsyncClient) -> Any:
    async def key() -> str:
        return "sk-1"

    return build(endpoint, client, key, httpx2.Timeout(5))


def _stock(endpoint: Endpoint, client: httpx2.AsyncClient) -> Any:
    from langchain_openai import ChatOpenAI  # It takes a second to import, in each process that collects this module.

    chat = ChatOpenAI(
        model=endpoint.name,
        base_url=endpoint.base_url,
        api_key=SecretStr("sk-1"),
        http_async_client=client,
        max_retries=0,
        max_completion_tokens=endpoint.max_output_tokens,
        temperature=endpoint.temperature,
        extra_body=endpoint.extra_body or None,
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
    )
    chat.root_async_client._platform = "Linux"  # Otherwise it runs a program to find out.
    return chat


async def _ask(chat: Any, prompt: Sequence[AnyMessage], tools: Sequence[Any], bound: Mapping[str, Any]) -> AIMessage:
    asked = chat.bind_tools(list(tools), **bound) if tools else chat.bind(**bound)
    answer = await asked.ainvoke(list(prompt), config={"run_id": _RUN})
    assert isinstance(answer, AIMessage)
    return answer


def _event(*, choices: Sequence[Any] | None = None, delta: Any = None, **fields: Any) -> bytes:
    whole = [{"index": 0, "delta": delta or {}, "finish_reason": None}] if choices is None else choices
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-2026-01-01"}
    return b"data: " + json.dumps({**frame, "choices": whole, **fields}).encode() + b"\n\n"


def _end(reason: str = "stop", **fields: Any) -> bytes:
    return _event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}], **fields)


_HELLO = _event(delta={"role": "assistant", "content": "Hi"}) + _end() + _DONE


@tool
def look_up(order: str, *, exact: bool = True) -> str:
    """Find an order."""
    return f"{order} {exact}"


_FUNCTION = {
    "type": "function",
    "function": {
        "name": "orders__look_up",
        "description": "Find an order – by its number.",
        "parameters": {
            "type": "object",
            "properties": {"order": {"type": "string", "format": "date-time", "default": None}},
            "required": ["order"],
            "additionalProperties": False,
        },
    },
}
_CALL = {"name": "orders__look_up", "args": {"order": "Ä-1001", "deep": {"a": [1, None]}}, "id": "call_1"}
_BROKEN = {"name": "look_up", "args": '{"order": ', "id": "call_2", "error": "cut"}
_USER = HumanMessage("Where is my order? 📦")


def _body(
    prompt: Sequence[AnyMessage], case: str, /, *, tools: Sequence[Any] = (), bound: Any = None, **fields: Any
) -> Any:
    return pytest.param(prompt, tools, bound or {}, fields, id=case)


_BODIES = [
    _body([_USER], "one message of the user"),
    _body([SystemMessage("Be kind."), _USER, AIMessage("Yes?"), HumanMessage("Well…")], "every role"),
    _body([SystemMessage("Be kind."), _USER], "the system's role of a reasoning model", name="o4-mini"),
    _body([_USER], "a temperature", temperature=0.5),
    _body([_USER], "temperature zero", temperature=0),
    _body([_USER], "a temperature that the model does not support", name="gpt-5-mini", temperature=0.5),
    _body([_USER], "a temperature that the model supports", name="gpt-5-chat-latest", temperature=0.5),
    _body([_USER], "the only temperature of a model", name="GPT-5", temperature=1),
    _body([_USER], "fields of the operator",
          extraBody={"top_p": 0.5, "nested": {"a": [None]}, "max_completion_tokens": None}),
    _body([_USER], "a field of the operator instead of the agent's", bound={"reasoning_effort": "low"},
          extraBody={"reasoning_effort": "high", "stream_options": {"include_usage": True, "x": 1}}),
    _body([_USER], "call arguments", bound={"reasoning_effort": "low", "prompt_cache_key": "k", "stop": ["END"]}),
    _body([_USER], "a limit of output tokens for one call", bound={"max_completion_tokens": 7}),
    _body([_USER], "a tool", tools=[_FUNCTION]),
    _body([_USER], "tools of several kinds", tools=[_FUNCTION, look_up]),
    *(
        _body([_USER], f"the tool choice {choice}", tools=[_FUNCTION, look_up], bound={"tool_choice": choice})
        for choice in ("auto", "none", "any", "required", "look_up", True, False, None)
    ),
    _body([_USER], "the choice of one function", tools=[_FUNCTION],
          bound={"tool_choice": {"type": "function", "function": {"name": "orders__look_up"}}}),
    _body([_USER], "one call at a time", tools=[_FUNCTION], bound={"parallel_tool_calls": False}),
    _body([_USER, AIMessage("", tool_calls=[_CALL]), ToolMessage("found", tool_call_id="call_1")], "a tool call"),
    _body([_USER, AIMessage("I look.", tool_calls=[_CALL]), ToolMessage("", tool_call_id="call_1")],
          "a tool call with text, and an empty result"),
    _body([_USER, AIMessage("", invalid_tool_calls=[_BROKEN], tool_calls=[_CALL])], "a call that is not JSON"),
    _body([_USER, AIMessage("")], "an empty answer"),
    _body([HumanMessage(""), AIMessage([]), HumanMessage([])], "empty content of every kind"),
    _body([HumanMessage("Hi", name="ann"), AIMessage("Ho", name="bot"), SystemMessage("x", name="s")], "names"),
    _body([HumanMessage("Hi", additional_kwargs={"name": "ann"}), AIMessage("Ho", additional_kwargs={"x": 1})],
          "extras"),
    _body([ToolMessage("r", tool_call_id="c", name="look_up", status="error", artifact={"a": 1})], "a failed result"),
    _body([ToolMessage([{"type": "text", "text": "r", "id": "x"}, "plain"], tool_call_id="c")], "a result in blocks"),
    _body([ToolMessage([{"type": "image", "mime_type": "image/png", "base64": _PIXEL}], tool_call_id="c")],
          "a result with a picture"),
    _body([HumanMessage([
        {"type": "text", "text": "See"}, {"type": "image", "mime_type": "image/png", "base64": _PIXEL},
     ])], "a picture"),
    _body([HumanMessage([
        {"type": "image", "url": "https://x/p.png"}, {"type": "image_url", "image_url": {"url": "u"}},
     ])], "pictures by address"),
    _body([HumanMessage([{"type": "image", "source_type": "base64", "data": _PIXEL, "mime_type": "image/png"}])],
          "a picture in the former format"),
    _body([HumanMessage([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}},
        {"type": "image", "source": {"type": "url", "url": "https://x/p.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
     ])], "pictures in Anthropic's format"),
    _body([HumanMessage([
        {"type": "file", "mime_type": "application/pdf", "base64": _PIXEL, "filename": "a.pdf"},
        {"type": "audio", "mime_type": "audio/wav", "base64": _PIXEL},
     ])], "a file and a recording"),
    _body([HumanMessage([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, "plain"])],
          "a text block with a field of another provider"),
    _body([SystemMessage([{"type": "text", "text": "a", "extras": {"prompt_cache_breakpoint": {"x": 1}}}])],
          "a block with a cache breakpoint"),
    _body([HumanMessage([{"type": "image", "base64": _PIXEL, "mime_type": "image/png", "prompt_cache_breakpoint": 1},
                         {"type": "text", "text": "a", "prompt_cache_breakpoint": None}])],
          "a picture with a cache breakpoint"),
    _body([AIMessage([
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Yes", "annotations": [1]},
        {"type": "tool_use", "id": "call_1", "name": "orders__look_up", "input": {}},
        {"type": "reasoning", "reasoning": "h"}, {"type": "tool_call", "id": "call_1", "name": "n", "args": {}},
        {"type": "redacted_thinking", "data": "d"}, "plain",
     ], tool_calls=[_CALL])], "an answer of another provider in blocks"),
    _body([AIMessage([{"type": "thinking", "thinking": "hm"}], tool_calls=[_CALL])], "an answer of thoughts only"),
    _body([AIMessage([{"type": "thinking", "thinking": "hm"}])], "an answer of thoughts without a call"),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "tools", "bound", "fields"), _BODIES)
async def test_request_body_equals_that_of_the_stock_client(prompt, tools, bound, fields):
    endpoint = _endpoint(**fields)
    sent = []
    for make in (_ours, _stock):
        provider = _Provider(_HELLO)
        async with httpx2.AsyncClient(transport=provider) as client:
            await _ask(make(endpoint, client), prompt, tools, bound)
        assert provider.request is not None
        head = provider.request.headers
        headers = {name: head[name] for name in ("authorization", "content-type", "accept")}
        sent.append((provider.request.method, str(provider.request.url), headers, provider.body))
    ours, stock = sent
    assert ours == stock


def _pieces(*pieces: Mapping[str, Any]) -> bytes:
    return b"".join(_event(delta={"tool_calls": [piece]}) for piece in pieces)


def _piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **more.pop("function", {})}, **more}


_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0, "cache_write_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 8, "audio_tokens": None},
}
_LOGPROBS = {"content": [{"token": "a", "bytes": None, "logprob": -1.5, "top_logprobs": []}], "refusal": None}
_TEXT = _event(delta={"role": "assistant", "content": ""}) + _event(delta={"content": "Grüße "})
_STREAMS = {
    "text": _TEXT + _event(delta={"content": "📦"}) + _end() + _DONE,
    "usage in a last chunk without choices": _TEXT + _end() + _event(choices=[], usage=_USAGE) + _DONE,
    "usage with the end": _TEXT + _end(usage=_USAGE) + _DONE,
    "usage without details": _TEXT + _end() + _event(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 2}),
    "usage that is null until the end": _event(delta={"content": "a"}, usage=None) + _end(usage=_USAGE) + _DONE,
    "a tier with prices of its own": _TEXT + _end(service_tier="flex", usage=_USAGE) + _DONE,
    "a fingerprint and the usual tier": _TEXT + _end(system_fingerprint="fp", service_tier="default") + _DONE,
    "an answer at its limit": _TEXT + _end("length") + _DONE,
    "an end without a marker": _TEXT + _end(),
    "text after the marker": _TEXT + _end() + _DONE + _event(delta={"content": "never"}),
    "one call": _pieces(
        _piece(0, "", id="call_1", type="function", function={"name": "look_up"}),
        *(_piece(0, part) for part in ('{"or', 'der": "Ä', '-1"', "}")),
    ) + _end("tool_calls", usage=_USAGE) + _DONE,
    "two calls with text": _TEXT + _pieces(
        _piece(0, '{"order": "a"}', id="call_1", function={"name": "look_up"}),
        _piece(1, "", id="call_2", function={"name": "look_up"}), _piece(1, '{"order": "b"}'),
    ) + _end("tool_calls") + _DONE,
    "two calls in one chunk": _event(delta={"tool_calls": [
        _piece(0, "{}", id="call_1", function={"name": "look_up"}),
        _piece(1, "{}", id="call_2", function={"name": "look_up"}),
     ]}) + _end("tool_calls") + _DONE,
    "a call without arguments": _pieces(_piece(0, "", id="call_1", function={"name": "look_up"}))
    + _end("tool_calls") + _DONE,
    "reasoning": _event(delta={"reasoning_content": "hm", "content": None}) + _TEXT + _end() + _DONE,
    "log probabilities": _event(choices=[{"index": 0, "delta": {"content": "a"}, "logprobs": _LOGPROBS}])
    + _end() + _DONE,
    "a delta that is null": _event(choices=[{"index": 0, "delta": None, "finish_reason": None}])
    + _TEXT + _end() + _DONE,
    "unknown fields": _event(delta={"content": "a", "audio": {"x": 1}}, provider="p", x_groq={"id": 1})
    + _end() + _DONE,
}  # fmt: skip


@pytest.mark.parametrize("stream", [pytest.param(stream, id=name) for name, stream in _STREAMS.items()])
async def test_message_equals_that_of_the_stock_client(stream):
    answers = []
    for make in (_ours, _stock):
        async with httpx2.AsyncClient(transport=_Provider(stream)) as client:
            answers.append(await _ask(make(_endpoint(), client), [_USER], [look_up], {}))
    ours, stock = answers
    assert ours.model_dump() == stock.model_dump()
    assert type(ours) is type(stock)
