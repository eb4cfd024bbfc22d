"""Adapts requests for chat completions to what the server behind an address accepts, as its refusals state it.

Compatible servers differ in the fields that they know and require. No list of vendors says which server is behind an
address. A refusal does: it names the field. The request is then sent again in another form, and so is each later one.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_agent.turn.providers.call_ids import short_id
from fleetwright_agent.turn.providers.reasoning import REASONING
from fleetwright_agent.turn.providers.tool_call_deltas import EXTRA

_logger = logging.getLogger(__name__)
Body = dict[str, Any]

_UNKNOWN: Final = (
    r"(?:unsupported|not supported|does not support|not permitted|extra[_ ]forbidden|unknown|unrecognized|unexpected"
    r"|not allowed|invalid argument|only the default)"
)
_NEEDED: Final = r"(?:missing|required|must be|passed back|provide)"
_OPTIONAL: Final = (
    *("stream_options", "prompt_cache_key", "temperature", "reasoning_effort", "parallel_tool_calls"),
    "tool_choice",
)
"""Fields without which a request has nearly the same meaning."""
_NESTED: Final = frozenset({"items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"})
_TYPING: Final = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})
_NO_TEXT: Final = re.compile(
    r"\bcontent\b[^\n]{0,120}input should be a valid string|\bcontent\b[^\n]{0,40}(?:cannot|must not|may not) be null"
)
_UNKNOWN_REASONING: Final = " "
"""The reasoning of a message whose own is not known. Some servers treat an empty text as none."""
_READ: Final = "I have read the results."
_ANY_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature that Google documents for calls which another model has made."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """One way to change a request."""

    name: str
    refusal: re.Pattern[str]
    """Matches the text of a refusal, in lower case."""
    change: Callable[[Body, re.Match[str]], Body]
    """Returns the changed request, which equals the request if there is nothing to change."""


def _rename_limit(body: Body, _: re.Match[str]) -> Body:
    limit = body.get("max_completion_tokens")
    rest = {name: value for name, value in body.items() if name != "max_completion_tokens"}
    return body if limit is None else {**rest, "max_tokens": limit}


def _drop_field(field: str) -> Callable[[Body, re.Match[str]], Body]:
    # A server that refuses to be forced to call a tool accepts the choice of none.
    return lambda body, _: {name: value for name, value in body.items() if name != field or value == "none"}


def _drop_reasoning(body: Body, _: re.Match[str]) -> Body:
    return _change_answers(body, lambda said: {name: each for name, each in said.items() if name != REASONING})


def _add_reasoning(body: Body, _: re.Match[str]) -> Body:
    return _change_calls(body, lambda said: {REASONING: _UNKNOWN_REASONING, **said})


def _add_text(body: Body, _: re.Match[str]) -> Body:
    return _change_calls(body, lambda said: {**said, "content": said.get("content") or ""})


def _add_signatures(body: Body, _: re.Match[str]) -> Body:
    any_signature = {"google": {"thought_signature": _ANY_SIGNATURE}}

    def sign_calls(said: Body) -> Body:
        return {**said, "tool_calls": [{EXTRA: any_signature, **call} for call in said["tool_calls"]]}

    return _change_calls(body, sign_calls)


def _shorten_ids(body: Body, _: re.Match[str]) -> Body:
    """Replace ids of calls that other providers gave by ids of nine letters and digits."""

    def shorten_message(said: Body) -> Body:
        calls = [{**call, "id": short_id(str(call["id"]))} for call in said.get("tool_calls") or ()]
        answered = {"tool_call_id": short_id(str(said["tool_call_id"]))} if "tool_call_id" in said else {}
        return {**said, **answered, **({"tool_calls": calls} if calls else {})}

    return {**body, "messages": [shorten_message(said) for said in body["messages"]]}


def _cut_descriptions(body: Body, found: re.Match[str]) -> Body:
    most = int(found["most"])

    def cut_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
        function = tool["function"]
        text = str(function.get("description", ""))
        return tool if len(text) <= most else {**tool, "function": {**function, "description": f"{text[: most - 1]}…"}}

    return {**body, "tools": [cut_tool(tool) for tool in body["tools"]]} if body.get("tools") else body


def _separate_users(body: Body, _: re.Match[str]) -> Body:
    """Put a message of the model between a result and a message of the user."""
    messages: list[Body] = []
    for said in body["messages"]:
        if said["role"] == "user" and messages and messages[-1]["role"] == "tool":
            messages.append({"role": "assistant", "content": _READ})
        messages.append(said)
    return {**body, "messages": messages}


def _merge_roles(body: Body, _: re.Match[str]) -> Body:
    """Join messages of the user that follow each other, if they are texts."""
    messages: list[Body] = []
    for said in body["messages"]:
        last = messages[-1] if messages else {}
        contents = last.get("content"), said.get("content")
        if said["role"] == last.get("role") == "user" and all(isinstance(each, str) for each in contents):
            messages[-1] = {**last, "content": "\n\n".join(map(str, contents))}
        else:
            messages.append(said)
    return {**body, "messages": messages}


def _add_types(body: Body, _: re.Match[str]) -> Body:
    """Add all types to schemas without one, because llama.cpp cannot read a schema with a description alone."""
    if not body.get("tools"):
        return body
    tools = [
        {**tool, "function": {**tool["function"], "parameters": _add_missing_types(tool["function"]["parameters"])}}
        for tool in body["tools"]
    ]
    return {**body, "tools": tools}


def _add_missing_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_add_missing_types(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name in {"properties", "$defs", "definitions"} and isinstance(value, Mapping):
            found[name] = {key: _add_missing_types(each) for key, each in value.items()}
        else:
            found[name] = _add_missing_types(value) if name in _NESTED else value
    if found and not _TYPING.intersection(found):
        found |= {"type": ["string", "number", "boolean", "object", "array", "null"], "items": {}}
    return found


def _change_answers(body: Body, change: Callable[[Body], Body]) -> Body:
    return {
        **body,
        "messages": [change(said) if said["role"] == "assistant" else said for said in body["messages"]],
    }


def _change_calls(body: Body, change: Callable[[Body], Body]) -> Body:
    return _change_answers(body, lambda said: change(said) if said.get("tool_calls") else said)


def _match_unknown_field(field: str) -> re.Pattern[str]:
    """Return an expression for the text of a server that does not know a field."""
    return re.compile(rf"{_UNKNOWN}[^\n]{{0,200}}\b{field}\b|\b{field}\b[^\n]{{0,200}}{_UNKNOWN}")


def _leave_out(field: str) -> Adaptation:
    return Adaptation(f"without {field}", _match_unknown_field(field), _drop_field(field))


ADAPTATIONS: Final = (
    Adaptation("max_tokens", _match_unknown_field("max_completion_tokens"), _rename_limit),
    *(_leave_out(field) for field in _OPTIONAL),
    Adaptation(
        "without reasoning_content", re.compile(rf"reasoning_content\b[^\n]{{0,200}}{_UNKNOWN}"), _drop_reasoning
    ),
    Adaptation(
        "reasoning_content",
        re.compile(rf"{_NEEDED}[^\n]{{0,200}}\breasoning_content\b|\breasoning_content\b[^\n]{{0,200}}{_NEEDED}"),
        _add_reasoning,
    ),
    Adaptation("thought signatures", re.compile(r"missing a thought_signature"), _add_signatures),
    Adaptation(
        "short ids",
        re.compile(r"tool call id was|(?:tool_calls\[\d+\]\.id|tool_call_id)'?: string (?:too long|does not|should)"),
        _shorten_ids,
    ),
    Adaptation(
        "short descriptions",
        re.compile(r"description[^\n]{0,80}too long[^\n]{0,80}maximum length (?P<most>\d{2,6})"),
        _cut_descriptions,
    ),
    Adaptation("answers before users", re.compile(r"role 'user' after role 'tool'"), _separate_users),
    Adaptation("alternating roles", re.compile(r"roles must alternate"), _merge_roles),
    Adaptation("typed schemas", re.compile(r"unrecognized schema"), _add_types),
    Adaptation("text beside calls", _NO_TEXT, _add_text),
)


class RequestAdapter:
    """The adaptations for one model at one address. They are kept until the process ends."""

    def __init__(self) -> None:
        self._adopted: dict[str, tuple[Adaptation, re.Match[str]]] = {}

    def adapt_request(self, body: Body) -> Body:
        """Return the request in the form that the server accepts, as far as it is known."""
        for adaptation, found in self._adopted.values():
            body = adaptation.change(body, found)
        return body

    def learn_form(self, refusal: str, body: Body, *, sent: Body) -> bool:
        """Adopt an adaptation that a refusal asks for. Return True if the request then differs from the refused one.

        Args:
            refusal: The error text of the provider.
            body: The request before all adaptations.
            sent: The request that was refused, as it was sent.
        """
        if self.adapt_request(body) != sent:
            return True  # A concurrent call has learned it.
        words = refusal.lower()
        for adaptation in ADAPTATIONS:
            found = adaptation.refusal.search(words)
            if found is None or adaptation.name in self._adopted or adaptation.change(sent, found) == sent:
                continue
            self._adopted[adaptation.name] = adaptation, found
            about = {"model": sent["model"], "form": adaptation.name}
            _logger.warning("requests for the model are sent in another form", extra=about)
            return True
        return False
