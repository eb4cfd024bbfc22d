"""Requests for chat completions that fail, end early, or get a stream with peculiarities."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import httpx2
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.turn.providers.chat_completions.client import CompletionsClient
from fleetwright_agent.turn.providers.chat_completions.errors import (
    CompletionConnectionError,
    CompletionError,
    CompletionStatusError,
    CompletionTimeoutError,
)
from fleetwright_agent.turn.providers.failures import MissingKey, classify, provider_text
from fleetwright_agent.turn.providers.openai import OpenAIChat, build

_KEY = "sk-secret"


class _Stream(httpx2.AsyncByteStream):
    """The body of a response: pieces, and exceptions that are raised in their place."""

    def __init__(self, pieces: Sequence[bytes | Exception], *, endless: bool = False) -> None:
        self.pieces = list(pieces)
        self.endless = endless
        self.read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            self.read += 1
            yield piece
        while self.endless:
            self.read += 1
            yield b": more\n" * 1000

    async def aclose(self) -> None:
        self.closed = True


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, answer: httpx2.Response | Exception) -> None:
        self.answer = answer
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _response(*pieces: bytes | Exception, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, headers=headers, stream=_Stream(pieces))


def _refused(status: int, body: Any, **headers: str) -> httpx2.Response:
    return _response(body if isinstance(body, bytes) else json.dumps(body).encode(), status=status, **headers)


async def _key() -> str:
    return _KEY


def _client(answer: httpx2.Response | Exception, key: Any = _key) -> tuple[CompletionsClient, _Transport]:
    transport = _Transport(answer)
    return CompletionsClient(httpx2.AsyncClient(transport=transport), "http://m/v1", key, httpx2.Timeout(5)), transport


def _chat(*pieces: bytes | Exception, **about: Any) -> OpenAIChat:
    endpoint = Endpoint.model_validate(
        {"name": "m", "baseUrl": "http://m/v1", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 5, **about}
    )
    client = httpx2.AsyncClient(transport=_Transport(_response(*pieces)))
    return build(endpoint, client, _key, httpx2.Timeout(5))


def _event(delta: Any = None, **fields: Any) -> bytes:
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": None}]
    return f"data: {json.dumps({'model': 'm', 'choices': choices, **fields})}\n\n".encode()


_END = _event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
_DONE = b"data: [DONE]\n\n"


def _stated(message: str, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


def _failure(answer: httpx2.Response | Exception, reason: str, case: str, *, transient: bool = True, text: str) -> Any:
    return pytest.param(answer, reason, transient, text, id=case)


@pytest.mark.parametrize(
    ("answer", "reason", "transient", "text"),
    [
        _failure(_refused(401, _stated("Incorrect key.", "invalid_api_key")), "model_unauthorized", "a refused key",
                 transient=False, text="Error code: 401 - Incorrect key."),
        _failure(_refused(400, _stated("No.", "context_length_exceeded")), "model_context_overflow", "a code",
                 transient=False, text="Error code: 400 - No."),
        _failure(_refused(400, {"object": "error", "message": "maximum context length is 9"}), "model_context_overflow",
                 "vLLM's error", transient=False, text="Error code: 400 - maximum context length is 9"),
        _failure(_refused(400, {"error": "prompt is too long"}), "model_context_overflow", "an error that is a text",
                 transient=False, text="Error code: 400 - prompt is too long"),
        _failure(_refused(400, ["x"]), "model_refused_request", "an error that is a list", transient=False,
                 text="Error code: 400 - x"),
        _failure(_refused(404, b"<html>" + b"x" * 99), "model_not_found", "an error page", transient=False,
                 text="Error code: 404"),
        _failure(_refused(500, b"\xff\xfe"), "model_error", "an error of unknown encoding", text="Error code: 500"),
        _failure(_refused(503, b"[" * 60_000), "model_error", "an error that is nested too deeply",
                 text="Error code: 503"),
        _failure(_refused(302, b"", location="http://elsewhere"), "model_error", "a redirect", text="Error code: 302"),
        _failure(_response(b"{", httpx2.ReadError("x"), status=502), "model_error", "an error that breaks off",
                 text="Error code: 502"),
        _failure(httpx2.ConnectTimeout("x"), "model_timeout", "no connection in time", text="Request timed out."),
        _failure(httpx2.ConnectError("x"), "model_unreachable", "no connection", text="Connection error."),
        _failure(ssl.SSLError("x"), "model_unreachable", "no trusted connection", text="Connection error."),
        _failure(_response(_event(), httpx2.ReadTimeout("x")), "model_timeout", "silence", text="Request timed out."),
        _failure(_response(_event(), httpx2.RemoteProtocolError("x")), "model_unreachable", "a broken connection",
                 text="Connection error."),
        _failure(_response(_event(), anyio.EndOfStream()), "model_unreachable", "a broken TLS connection",
                 text="Connection error."),
        _failure(_response(_event(), b'data: {"error": {"message": "Overloaded", "code": 502}}\n\n'), "model_error",
                 "an error in the stream", text="Overloaded"),
        _failure(_response(b'event: error\ndata: {"error": "prompt is too long"}\n\n'), "model_context_overflow",
                 "an error in the stream that is a text", transient=False, text="prompt is too long"),
        _failure(_response(b'data: {"error": {"type": "x"}}\n\n'), "model_error", "an error without words",
                 text="An error occurred during streaming"),
        _failure(_response(_event(), b'data: {"choices": [\n\n'), "model_error", "an event that is not JSON",
                 text="An event of the answer is not JSON."),
        _failure(_response(b'data: {"x": "\xff"}\n\n'), "model_error", "an event of unknown encoding",
                 text="An event of the answer is not JSON."),
        _failure(_response(b"data: " + b"[" * 60_000 + b"\n\n"), "model_error", "an event that is nested too deeply",
                 text="An event of the answer is not JSON."),
        _failure(_response(b"data: null\n\n"), "model_error", "an event that is no object",
                 text="An event of the answer is not an object."),
        _failure(_response(b"data: ", *[b"x" * 2**20] * 16), "model_error", "an event that is too large",
                 text="An event of the stream is larger than 16777216 bytes."),
        _failure(_response(b"<html>Hello</html>"), "model_error", "a page", text="The answer is no stream of events."),
        _failure(_response(b'{"choices": [{"mes'), "model_error", "a whole answer that is cut",
                 text="An event of the answer is not JSON."),
        _failure(_response(), "model_error", "an empty answer", text="The answer is no stream of events."),
    ],
)  # fmt: skip
async def test_client_reports_how_a_call_failed(answer, reason, transient, text):
    client, transport = _client(answer)
    with pytest.raises(CompletionError) as raised:
        async for _ in client.stream({"messages": []}):
            pass
    failure = classify(raised.value)
    assert failure is not None
    assert (failure.reason, failure.transient, provider_text(raised.value)) == (reason, transient, text)
    assert len(transport.requests) == 1
    assert isinstance(answer, Exception) or answer.is_closed
    assert _KEY not in "".join(map(repr, (raised.value, raised.value.__dict__, client)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(httpx2.ReadTimeout("x"), CompletionTimeoutError, id="a timeout"),
        pytest.param(httpx2.ReadError("x"), CompletionConnectionError, id="a broken connection"),
    ],
)
async def test_client_has_its_own_errors_for_connections(error, kind):
    with pytest.raises(kind):
        await anext(_client(error)[0].stream({}))


async def test_status_error_keeps_the_headers_of_the_response():
    answer = _refused(429, _stated("Slow down.", "rate_limit_exceeded"), **{"Retry-After": "7"})
    with pytest.raises(CompletionStatusError) as raised:
        await anext(_client(answer)[0].stream({}))
    failure = classify(raised.value)
    assert failure is not None
    assert (failure.reason, failure.retry_after) == ("model_rate_limited", 7)
    assert raised.value.codes == ("rate_limit_exceeded",)


async def test_client_reads_a_limited_part_of_an_error():
    stream = _Stream([json.dumps(_stated("x")).encode()], endless=True)
    with pytest.raises(CompletionStatusError, match=r"^Error code: 500$"):
        await anext(_client(httpx2.Response(500, stream=stream))[0].stream({}))
    assert stream.closed
    assert stream.read < 20


@pytest.mark.parametrize(
    ("key", "header"),
    [
        pytest.param("sk-1", "Bearer sk-1", id="a key"),
        pytest.param(None, "Bearer none", id="a model without a key"),
        pytest.param("", None, id="an empty file"),
    ],
)
async def test_client_sends_the_current_key(key, header):
    async def read() -> str:
        return key

    client, transport = _client(_response(_event(), _DONE), None if key is None else read)
    assert [each async for each in client.stream({"model": "ä"})]
    (request,) = transport.requests
    assert request.headers.get("authorization") == header
    assert request.content == '{"model":"ä"}'.encode()


@pytest.mark.parametrize("key", ["sk-\n1", "sk-ä", "sk-\x00"])
async def test_client_never_quotes_a_key_that_it_cannot_send(key):
    async def read() -> str:
        return key

    client, transport = _client(_response(_event()), read)
    with pytest.raises(MissingKey) as raised:
        await anext(client.stream({}))
    assert key not in str(raised.value)
    assert transport.requests == []


async def test_client_reads_the_response_to_its_end():
    stream = _Stream([_event() + _DONE, b": bye\n\n", b""])
    client, _ = _client(httpx2.Response(200, stream=stream))
    assert len([each async for each in client.stream({})]) == 1
    assert (stream.read, stream.closed) == (3, True)


async def test_client_does_not_read_on_for_long_after_the_end():
    stream = _Stream([_event(), _DONE], endless=True)
    client, _ = _client(httpx2.Response(200, stream=stream))
    assert len([each async for each in client.stream({})]) == 1
    assert stream.read < 20
    assert stream.closed


async def test_connection_is_closed_when_the_consumer_stops():
    stream = _Stream([_event({"content": "a"})] * 9)
    client = httpx2.AsyncClient(transport=_Transport(httpx2.Response(200, stream=stream)))
    endpoint = Endpoint.model_validate(
        {"name": "m", "baseUrl": "http://m/v1", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 5}
    )
    chat = build(endpoint, client, None, httpx2.Timeout(5))
    async with aclosing(chat._chunks([HumanMessage("Hi")])) as chunks:
        await anext(chunks)
    assert (stream.read, stream.closed) == (1, True)


async def test_connection_is_closed_when_the_call_is_cancelled():
    stream = _Stream([_event({"content": "a"})] * 9)
    client = httpx2.AsyncClient(transport=_Transport(httpx2.Response(200, stream=stream)))
    endpoint = Endpoint.model_validate(
        {"name": "m", "baseUrl": "http://m/v1", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 5}
    )
    heard: list[str] = []

    def said(text: str) -> None:
        heard.append(text)
        task.cancel()

    chat = build(endpoint, client, None, httpx2.Timeout(5)).heard(said, said)
    task = asyncio.ensure_future(chat.ainvoke("Hi"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (heard, stream.closed) == (["a"], True)


async def _answer(*pieces: bytes) -> AIMessage:
    return await _chat(*pieces).ainvoke("Hi")


def _choice(index: int | None, text: str, end: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": end}


@pytest.mark.parametrize(
    ("events", "text", "end"),
    [
        pytest.param([_event({"content": "a"}), _END, _END], "a", "stop", id="an end that is repeated"),
        pytest.param([_event(choices=[_choice(0, "a"), _choice(1, "b")]), _event(choices=[_choice(1, "c")]),
                      _event(choices=[_choice(1, "d", "length"), _choice(0, "e", "stop")])], "ae", "stop",
                     id="several choices"),
        pytest.param([_event(choices=[_choice(1, "a")]), _event(choices=[_choice(1, "b", "stop")])], "ab", "stop",
                     id="choices that begin with one"),
        pytest.param([_event({"content": "a"}), _event(choices=[{"finish_reason": "length"}])], "a", "length",
                     id="an end without a delta"),
        pytest.param([_event(choices=None), _event(choices=7), _event(choices=["x"]), _event({"content": 5}),
                      _event(choices=[{"delta": "x"}]), _event({"content": "a", "tool_calls": [None]}), _END],
                     "a", "stop", id="fields of another type"),
    ],
)  # fmt: skip
async def test_answer_is_read_from_unusual_events(events, text, end):
    answer = await _answer(*events, _DONE)
    assert (answer.text, answer.response_metadata["finish_reason"]) == (text, end)


async def test_answer_joins_the_blocks_of_a_streamed_list():
    blocks = [[{"type": "text", "text": each, "index": 0}] for each in "ab"]
    answer = await _answer(*(_event({"content": block}) for block in blocks), _END, _DONE)
    assert answer.text == "ab"


async def test_usage_that_is_no_number_counts_as_zero():
    usage = {"prompt_tokens": "9", "completion_tokens": 2, "prompt_tokens_details": [], "total_tokens": 2.5}
    answer = await _answer(_event({"content": "a"}), _END, _event(choices=[], usage=usage))
    assert answer.usage_metadata is not None
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (0, 2)


async def test_tool_call_with_an_object_as_arguments_is_read():
    call = {"index": 0, "id": "c", "function": {"name": "look_up", "arguments": {"order": "A"}}}
    answer = await _answer(_event({"tool_calls": [call]}), _END, _DONE)
    assert [(each["name"], each["args"]) for each in answer.tool_calls] == [("look_up", {"order": "A"})]


async def test_text_is_passed_on_as_it_arrives():
    said: list[str] = []
    thought: list[str] = []
    encoded = _event({"reasoning": "hm"}) + b": wait\r\n\r\n" + _event({"content": "Grüße"}) + _END + _DONE
    chat = _chat(*(encoded[at : at + 3] for at in range(0, len(encoded), 3))).heard(said.append, thought.append)
    assert (await chat.ainvoke("Hi")).text == "Grüße"
    assert (said, thought) == (["Grüße"], ["hm"])


async def test_model_is_only_asked_asynchronously():
    with pytest.raises(NotImplementedError, match="ainvoke"):
        _chat().invoke("Hi")
