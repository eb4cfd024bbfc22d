"""Questions as interrupts of LangChain's Agent Inbox, and its responses as answers. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from fleetwright_a2a.human_input.agent_inbox import (
    InboxAction,
    InboxPermissions,
    InboxResponse,
    human_interrupt,
    inbox_response,
)
from fleetwright_agent.protocol.arguments import arguments_digest, reviewable, with_integers
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.tools.human.approval import UNTYPED
from fleetwright_agent.tools.human.form_questions import form_questions
from fleetwright_agent.tools.typed_text import allows_text, typed_value

_IGNORED = "The person did not answer."
_QUESTION = "question"
"""The action of a question that no tool asks, such as that of an exhausted budget."""


def inbox_interrupt(ask: InterruptRequest, *, by: str = "") -> dict[str, Any]:
    """Return a question as an interrupt. It permits only responses that `inbox_answer` accepts.

    Args:
        by: The people who decide, if the caller of the task does not. The interrupt then permits no response.
    """
    description = ask.prompt
    if ask.kind is InterruptKind.APPROVAL:
        arguments = reviewable(ask.arguments or {})
        description = f"{ask.payload['title']}\n\n{ask.payload['detail']}"
        asks_caller = not by
        permissions = InboxPermissions(
            accept=asks_caller, edit=asks_caller and arguments is not None, respond=asks_caller, ignore=asks_caller
        )
    elif ask.kind is InterruptKind.FORM:
        arguments = {field.name: field.schema.get("default", "") for field in form_questions(ask.payload)}
        permissions = InboxPermissions(edit=True, respond=True, ignore=True)
    else:
        arguments = {"question": ask.prompt}
        permissions = InboxPermissions(respond=True, ignore=True)
    return human_interrupt(ask.tool or _QUESTION, arguments or {}, permissions, description=description)


def read_response(value: Any) -> InboxResponse | None:
    """Return the response, or None if the value is something else.

    Raises:
        ValueError: The value is a response with invalid arguments. The text names the member.
    """
    try:
        return inbox_response(value)
    except ValueError as error:
        raise ValueError(f"message.parts: {error}") from None


def inbox_answer(response: InboxResponse, pause: TaskInterrupt) -> Any:
    """Return the answer in this project's own format.

    Raises:
        ValueError: The response does not answer the question of the task. The text names the member.
    """
    if pause.kind is InterruptKind.APPROVAL:
        return _decision(response, pause)
    match response.action:
        case InboxAction.RESPONSE:
            return response.text
        case InboxAction.IGNORE:
            return _IGNORED
    if pause.kind is not InterruptKind.FORM or response.arguments is None:
        raise ValueError("message.parts: type must be response or ignore, because the task waits for an answer")
    schemas = {field.name: field.schema for field in form_questions(pause.form or {})}
    return {
        name: typed_value(value, schemas.get(name))
        for name, value in response.arguments.items()
        # The interrupt has an empty text for a field without a default value, and the user interface returns it.
        if value != "" or _allows_empty_text(schemas.get(name))
    }


def _allows_empty_text(schema: Any) -> bool:
    options = schema.get("enum") if isinstance(schema, Mapping) else None
    return allows_text(schema) and (not isinstance(options, list) or "" in options)


def _decision(response: InboxResponse, pause: TaskInterrupt) -> dict[str, Any]:
    match response.action:
        case InboxAction.RESPONSE:
            return {"approved": False, "reason": response.text}
        case InboxAction.IGNORE:
            return {"approved": False}
    if response.arguments is None:
        return {"approved": True}
    if response.tool != pause.tool:
        raise ValueError(f"message.parts: args.action must be {pause.tool!r}, the tool that needs the approval")
    if pause.arguments is not None and _is_unchanged(response.arguments, pause.arguments):
        return {"approved": True}
    if response.action is InboxAction.ACCEPT:
        if pause.arguments is None and not response.arguments:
            return {"approved": True}  # The interrupt had no arguments, because they are too large.
        raise ValueError("message.parts: an acceptance must not change args.args; send an edit")
    return {"approved": True, "arguments": dict(response.arguments), UNTYPED: True}


def _is_unchanged(edited: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether the edited arguments are those of the question, apart from values that became JSON texts."""
    restored = {name: _restored(value, asked.get(name, "")) for name, value in edited.items()}
    return arguments_digest(restored) == arguments_digest(asked)


def _restored(value: Any, asked: Any) -> Any:
    """Return the value of a JSON text, unless the argument was a text in the question too."""
    if not isinstance(value, str) or isinstance(asked, str):
        return value
    try:
        return with_integers(json.loads(value))
    except (ValueError, RecursionError):
        return value
