"""Responses of LangChain's Agent Inbox: `accept`, `edit`, `response` and `ignore`. Pure.

A response is an object with `type` and `args`, usually in a list of one. The user interface of Agent Inbox returns the
edited arguments as texts.
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


def inbox_response(value: Any) -> InboxResponse | None:
    """Return the response, or None if the value is something else.

    Raises:
        ValueError: The value is a response, but its arguments are invalid.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Mapping) or value.keys() != {"type", "args"} or value["type"] not in [*InboxAction]:
        return None
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
    return args["action"], args["args"]
