"""Interrupts and responses of LangChain's Agent Inbox. Pure.

An interrupt (`HumanInterrupt`) asks about one action, and names the responses that are permitted. A response
(`HumanResponse`) is an object with `type` and `args`, usually in a list of one. The user interface of Agent Inbox
returns the edited arguments as texts. See the README of langchain-ai/agent-inbox.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class InboxAction(StrEnum):
    ACCEPT = "accept"
    EDIT = "edit"
    RESPONSE = "response"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class InboxResponse:
    action: InboxAction
    text: str = ""
    """The text of a response."""
    tool: str = ""
    """The tool whose arguments were edited."""
    arguments: Mapping[str, Any] | None = None
    """The edited arguments, whose values may be texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPermissions:
    """The types of responses that an interrupt permits."""

    accept: bool = False
    edit: bool = False
    respond: bool = False
    ignore: bool = False


def human_interrupt(
    action: str, arguments: Mapping[str, Any], permissions: InboxPermissions, *, description: str
) -> dict[str, Any]:
    return {
        "action_request": {"action": action, "args": dict(arguments)},
        "config": {
            "allow_ignore": permissions.ignore,
            "allow_respond": permissions.respond,
            "allow_edit": permissions.edit,
            "allow_accept": permissions.accept,
        },
        "description": description,
    }


def inbox_response(value: Any) -> InboxResponse | None:
    """Return the response, or None if the value is something else.

    Raises:
        ValueError: The value is a response, but its arguments are invalid.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Mapping) or not {"type", "args"} <= value.keys() or value["type"] not in [*InboxAction]:
        return None
    if unknown := sorted(str(key) for key in value.keys() - {"type", "args"}):
        raise ValueError(f"a response has no member {unknown[0][:40]!r}; its members are type and args")
    action, args = InboxAction(value["type"]), value["args"]
    if action is InboxAction.RESPONSE:
        if not isinstance(args, str):
            raise ValueError("args of a response must be a text")
        return InboxResponse(action, text=args)
    if args is None or action is InboxAction.IGNORE:
        if action is InboxAction.EDIT:
            raise ValueError("args of an edit must have action and args")
        return InboxResponse(action)
    tool, arguments = _edited(args)
    return InboxResponse(action, tool=tool, arguments=arguments)


def _edited(args: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the tool and the arguments. An acceptance may repeat them."""
    if not isinstance(args, Mapping) or not isinstance(args.get("action"), str):
        raise ValueError("args must be an object with action and args")
    if not isinstance(args.get("args"), Mapping):
        raise ValueError("args.args must be an object")
    if unknown := sorted(args.keys() - {"action", "args"}):
        raise ValueError(f"args has no member {unknown[0][:40]!r}; changed arguments belong in args.args")
    return args["action"], args["args"]
