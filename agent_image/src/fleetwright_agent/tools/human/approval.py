"""Human-in-the-loop tools: tools that ask the caller, and tools that run only after the caller's approval.

Each tool defines its question and interprets the reply; the model loop pauses and resumes. A reply that is not clearly
a yes is never an approval.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.tools.port import Tool, ToolCall, ToolDeclined

_YES: Final = frozenset({"approve", "approved", "yes", "y", "true", "ok"})
_SAYS: Final = ("approved", "decision", "answer")
_LONGEST: Final = 50_000


def approved(value: object) -> bool:
    """Return whether a reply approves the request; a reply that is not clearly a yes declines."""
    if isinstance(value, Mapping):
        said = [value[key] for key in _SAYS if key in value]
        return bool(said) and all(map(_yes, said))
    return _yes(value)


def _yes(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _YES
    return value is True


def with_approval(tool: Tool, *, agent: str) -> Tool:
    """Return the tool with a required approval."""
    return replace(tool, asks=lambda arguments: approval(tool.name, arguments, agent=agent))


def always_declined(tool: Tool) -> Tool:
    """Return the tool for a caller that cannot approve: it declines and does not run."""

    async def refuse(_: ToolCall) -> str:
        raise ToolDeclined(
            f"{tool.name} needs the approval of a person, and this request comes from an agent; say so in your answer"
        )

    return replace(tool, run=refuse)


def approval(name: str, arguments: Mapping[str, Any], *, agent: str) -> InterruptRequest:
    # Show the arguments in full, with invisible characters escaped: the person must see everything that will run.
    detail = "".join(map(_visible, json.dumps(arguments, ensure_ascii=False)))
    title = f"Run {name}?"
    return InterruptRequest(
        InterruptKind.APPROVAL,
        f"Approval is needed to run {name} with {detail}. Answer yes to run it; anything else declines.",
        {"kind": "approval", "title": title, "detail": detail, "project": agent},
        tool=name,
    )


def _visible(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def human_tools() -> tuple[Tool, ...]:
    """`ask_human` and `request_user_input`; callers that are agents do not get them."""
    question = {"type": "string", "minLength": 1, "maxLength": 4000, "description": "The question, complete in itself"}
    step = {
        "type": "object",
        "properties": {
            "schema": {"type": "object", "description": "JSON Schema of the values of this step"},
            "uiSchema": {"type": "object"},
            "title": {"type": "string"},
            "description": {"type": "string"},
        },
        "required": ["schema"],
        "additionalProperties": False,
    }
    form = {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "description": {"type": "string", "maxLength": 4000},
        "steps": {"type": "array", "minItems": 1, "maxItems": 20, "items": step},
    }
    return (
        _asking("ask_human", "Ask the human a question and wait for the reply.", _question, question=question),
        _asking(
            "request_user_input",
            "Let the human fill in a form and wait for the values.",
            _form,
            ("description",),
            **form,
        ),
    )


def _asking(
    name: str,
    text: str,
    asks: Callable[[Mapping[str, Any]], InterruptRequest],
    optional: tuple[str, ...] = (),
    **properties: object,
) -> Tool:
    required = [key for key in properties if key not in optional]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name, text, schema, _said, asks, repeatable=True)


async def _said(call: ToolCall) -> str:
    text = call.reply if isinstance(call.reply, str) else json.dumps(call.reply, ensure_ascii=False)
    return text[:_LONGEST]


def _question(arguments: Mapping[str, Any]) -> InterruptRequest:
    question = str(arguments["question"])
    return InterruptRequest(InterruptKind.QUESTION, question, {"question": question}, tool="ask_human")


def _form(arguments: Mapping[str, Any]) -> InterruptRequest:
    title, description = str(arguments["title"]), str(arguments.get("description", ""))
    payload = {"kind": "form", "title": title, "description": description, "steps": list(arguments["steps"])}
    prompt = f"{title}\n{description}" if description else title
    return InterruptRequest(InterruptKind.FORM, prompt, payload, tool="request_user_input")
