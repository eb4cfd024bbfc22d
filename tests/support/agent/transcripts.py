"""The transcripts of `tests/agent_image/world/transcripts`: what providers have sent, and what it means.

`README.md` beside them describes the format.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Endpoint
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.turn.providers.factory import Chat, build_chat
from fleetwright_agent.turn.providers.reasoning import REASONING, RETURNED, origin_of

FOLDER: Final = Path(__file__).parents[2] / "agent_image/world/transcripts"
_PROVIDERS: Final = {"chat-completions": "OpenAI", "messages": "Anthropic", "generate-content": "Google"}
_EVENTS: Final = {"content-type": "text/event-stream"}
_FINE: Final = {
    "chat-completions": (
        'data: {"choices":[{"index":0,"delta":{"content":"Fine."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    ),
    "messages": "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        for event in (
            {
                "type": "message_start",
                "message": {
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "model": "m",
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                },
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Fine."}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        )
    ),
    "generate-content": (
        'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Fine."}]},"finishReason":"STOP","index":0}]}'
        "\n\n"
    ),
}
_PIECE: Final = 97
"""The bytes of a streamed body that arrive together. Events therefore end within pieces."""


@dataclass(frozen=True)
class Transcript:
    name: str
    """The vendor and the name of the file, such as `mistral/no-capacity`."""
    document: Mapping[str, Any] = field(repr=False)

    @property
    def vendor(self) -> str:
        return str(self.document["vendor"])

    @property
    def provider(self) -> tuple[str, str]:
        """The vendor and the client."""
        return self.vendor, str(self.document["client"])

    @property
    def wanted(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.document["wanted"]
        return found

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools of the request, in the form of chat completions."""
        return [
            {
                "type": "function",
                "function": {
                    "name": offered_name(tool["name"]),
                    "description": tool.get("description", ""),
                    "parameters": tool.get("inputSchema", {"type": "object"}),
                },
            }
            for tool in self.document.get("request", {}).get("tools", ())
        ]

    @property
    def conversation(self) -> list[AnyMessage]:
        said = self.document.get("request", {}).get("conversation") or [{"user": "Hello."}]
        origin = origin_of(self.document["model"], self.document["base_url"])
        return [_build_message(entry, origin) for entry in said]

    def endpoint(self, **more: Any) -> Endpoint:
        about = {
            "name": self.document["model"],
            "baseUrl": self.document["base_url"],
            "provider": _PROVIDERS[self.document["client"]],
            "contextWindow": 200_000,
            "maxOutputTokens": 1000,
            "timeoutSeconds": 20,
        }
        return Endpoint.model_validate({**about, **more})

    def response(self) -> httpx2.Response:
        answer = self.document["answer"]
        body = _Body(answer["body"].encode(), is_cut=answer.get("cut", False))
        return httpx2.Response(answer["status"], headers=answer.get("headers", {}), stream=body)


class RecordedProvider(httpx2.AsyncBaseTransport):
    """Answers each request with the response of a transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.number = 0
        """The number of requests."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.number += 1
        body = json.loads(await request.aread())
        response = self.build_response(body)
        response.request = request
        return response

    def build_response(self, body: Any) -> httpx2.Response:
        return self.transcript.response()

    def chat(self, **more: Any) -> Chat:
        client = httpx2.AsyncClient(transport=self)
        return build_chat(self.transcript.endpoint(**more), Layout(root=Path("/nowhere")), client)


class RefusingProvider(RecordedProvider):
    """Refuses the requests that transcripts show as refused, with their responses. Others get the text `Fine.`."""

    def __init__(self, transcripts: Sequence[Transcript]) -> None:
        super().__init__(transcripts[0])
        self._transcripts = transcripts
        self.violations: list[list[str]] = []
        """Of each request."""

    def build_response(self, body: Any) -> httpx2.Response:
        refusing = [(each, found) for each in self._transcripts if (found := find_violations(each, body))]
        self.violations.append([violation for _, found in refusing for violation in found])
        if refusing:
            return refusing[0][0].response()
        return httpx2.Response(200, headers=_EVENTS, text=_FINE[self.transcript.document["client"]])


class _Body(httpx2.AsyncByteStream):
    def __init__(self, body: bytes, *, is_cut: bool) -> None:
        self._body = body
        self._is_cut = is_cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), _PIECE):
            yield self._body[start : start + _PIECE]
        if self._is_cut:
            raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


@cache
def load_transcripts() -> tuple[Transcript, ...]:
    files = sorted(FOLDER.glob("*/*.yaml"))
    return tuple(Transcript(f"{file.parent.name}/{file.stem}", yaml.safe_load(file.read_text())) for file in files)


def find_violations(transcript: Transcript, body: Any) -> list[str]:
    """Return why the provider of a transcript would refuse the body of a request.

    A rule has a path `at` and the JSON schema `unless`, which each value at the path must satisfy.
    """
    return [
        f"{rule['at']}: {problem.message}"
        for rule in transcript.document["refuses"]
        for value in _values_at(body, rule["at"].split("."))
        for problem in Draft202012Validator(rule["unless"]).iter_errors(value)
    ]


def _values_at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    name, _, condition = steps[0].partition("[")
    found = value.get(name) if isinstance(value, Mapping) and name in value else None
    if name and found is None:
        return
    items = [found if name else value]
    for each in (part.rstrip("]") for part in condition.split("[") if condition):
        key, _, wanted = each.partition("=")
        nested = [item for holder in items if isinstance(holder, list) for item in holder]
        items = nested if each == "*" else [item for item in nested if str(item.get(key)) == wanted]
    for item in items:
        yield from _values_at(item, steps[1:])


def _build_message(entry: Mapping[str, Any], origin: str) -> AnyMessage:
    match entry:
        case {"user": text}:
            return HumanMessage(text)
        case {"tool": result}:
            return ToolMessage(result["text"], tool_call_id=result["call"])
        case {"assistant": said}:
            calls = [
                {"name": offered_name(call["name"]), "args": call["arguments"], "id": call["id"]}
                for call in said.get("calls", ())
            ]
            kept = {RETURNED: {origin: {REASONING: said["reasoning"]}}} if said.get("reasoning") else {}
            return AIMessage(said.get("text", ""), tool_calls=calls, additional_kwargs=kept)
    raise ValueError(f"unknown entry of a conversation: {entry}")
