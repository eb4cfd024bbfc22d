"""The tools `ask_human` and `request_user_input`, which pause the turn and return the reply of a person."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.tools.port import Ask, Decision, Tool, ToolCall, ToolContext

_LONGEST: Final = 50_000


class HumanTools:
    """Offers the tools in turns of clients, but not in turns of agents."""

    name = "human"

    def __init__(self) -> None:
        self._tools = human_tools()

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:
        return self._tools if is_client(context.request.owner) else ()

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def human_tools() -> tuple[Tool, ...]:
    """Return the tools `ask_human` and `request_user_input`."""
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
    ask: Callable[[Mapping[str, Any]], Ask],
    optional: tuple[str, ...] = (),
    **properties: object,
) -> Tool:
    required = [key for key in properties if key not in optional]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    async def decide(call: ToolCall) -> Decision:
        return ask(call.arguments)

    return Tool(name, text, schema, _reply, decide, repeatable=True)


async def _reply(call: ToolCall) -> str:
    text = call.reply if isinstance(call.reply, str) else json.dumps(call.reply, ensure_ascii=False)
    return text[:_LONGEST]


def _question(arguments: Mapping[str, Any]) -> Ask:
    question = str(arguments["question"])
    return Ask(question, kind=InterruptKind.QUESTION, payload={"question": question})


def _form(arguments: Mapping[str, Any]) -> Ask:
    title, description = str(arguments["title"]), str(arguments.get("description", ""))
    payload = {"kind": "form", "title": title, "description": description, "steps": list(arguments["steps"])}
    prompt = f"{title}\n{description}" if description else title
    return Ask(prompt, kind=InterruptKind.FORM, payload=payload)
