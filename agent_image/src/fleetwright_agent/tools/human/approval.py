"""Approval of tool calls by a person: the request that the person sees, and the meaning of the reply. Pure.

Only a reply that clearly means yes is an approval. A reply can give only grants that the request offered.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetwright_agent.protocol.arguments import with_integers
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.tools.port import Ask, Decision, Grant, Tool, ToolCall, strictest

_YES: Final = frozenset({"approve", "approved", "yes", "y", "true", "ok"})
_ALWAYS: Final = "always"
"""The text that approves a call and gives the first grant that the request offers."""
_SAYS: Final = ("approved", "decision", "answer")
_GRANT: Final = "grant"
_REASON: Final = "reason"
_REVIEWED: Final = "A reviewer decides; an answer to this task does not count."
_ARGUMENTS: Final = "arguments"
EXPIRED: Final = "expired"
UNTYPED: Final = "untyped"
_KEYS: Final = frozenset({*_SAYS, _GRANT, _REASON, _ARGUMENTS, EXPIRED, UNTYPED})
MAX_REASON: Final = 1024
"""The largest number of characters of a reason that the model reads."""


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    """A person's reply to a request for approval."""

    approved: bool
    grants: tuple[str, ...] = ()
    """The keys of the grants that the person gave with the approval."""
    reason: str = ""
    """The reason of the decision. The model reads the reason of a denial."""
    arguments: Mapping[str, Any] | None = None
    """The arguments with which the call runs, if the person has changed them."""
    untyped: bool = False
    """True if texts may stand for values of other types. The schema of the tool then restores the types."""
    expired: bool = False
    """True for the denial of an approval that expired without a decision."""


def read_reply(value: object, offered: Sequence[str] = ()) -> ApprovalReply:
    """Return the meaning of a reply. Args: `offered` are the keys of the grants that the request offered."""
    if offered and isinstance(value, str) and value.strip().lower() == _ALWAYS:
        return ApprovalReply(True, (offered[0],))
    if not isinstance(value, Mapping):
        return ApprovalReply(_yes(value))
    said = [value[key] for key in _SAYS if key in value]
    reason = _reason(value.get(_REASON))
    if not (said and all(map(_yes, said))):
        return ApprovalReply(False, reason=reason, expired=value.get(EXPIRED) is True)
    arguments = value.get(_ARGUMENTS)
    if arguments is not None and not isinstance(arguments, Mapping):
        return ApprovalReply(False)
    given = tuple(key for key in offered if key == value.get(_GRANT))
    if arguments is None:
        return ApprovalReply(True, given, reason)
    return ApprovalReply(True, given, reason, with_integers(arguments), value.get(UNTYPED) is True)


def reply_problem(value: object) -> str:
    """Return why a reply cannot be an approval as its author means it; empty if it can.

    The call would run unchanged if a reply had its changed arguments under another key. A denial may have further keys,
    because nothing runs.
    """
    if not isinstance(value, Mapping) or not (read_reply(value).approved or _ARGUMENTS in value):
        return ""
    if unknown := sorted(str(key) for key in value.keys() - _KEYS):
        return (
            f"an approval has no key {json.dumps(unknown[0][:40])}; changed arguments belong under {_ARGUMENTS!r},"
            f" the reason under {_REASON!r}"
        )
    given = value.get(_ARGUMENTS)
    if given is not None and not isinstance(given, Mapping):
        return f"{_ARGUMENTS} must be an object with all arguments of the call; leave it out to run the call unchanged"
    return ""


def expired_reply() -> dict[str, Any]:
    """Return the denial of an approval that expired without a decision."""
    return {"approved": False, EXPIRED: True, _REASON: "The approval was not given in time."}


def _reason(value: object) -> str:
    return value.strip()[:MAX_REASON] if isinstance(value, str) else ""


def _yes(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _YES
    return value is True


def with_approval(tool: Tool) -> Tool:
    """Return the tool with a required approval. The tool's own decision holds too, if it is stricter."""

    async def decide(call: ToolCall) -> Decision:
        return strictest(await tool.decide(call), Ask())

    return replace(tool, decide=decide)


def ask_request(
    tool: str, ask: Ask, arguments: Mapping[str, Any], *, agent: str, reviewed: bool = False
) -> InterruptRequest:
    """Return the request for the person: the question of the tool, or the request to approve the call.

    Args: `reviewed` is True if the caller of the task may not approve the call.
    """
    if ask.kind is not InterruptKind.APPROVAL:
        return InterruptRequest(ask.kind, ask.question, ask.payload, tool=tool)
    # Show the arguments in full, with invisible characters escaped: the person must see everything that will run.
    detail = _shown(ask.preview) if ask.preview else _shown(json.dumps(arguments, ensure_ascii=False))
    sentence = (
        f"{_shown(ask.question)}\n{detail}\n" if ask.question else f"Approval is needed to run {tool} with {detail}. "
    )
    payload = {"kind": "approval", "title": _shown(ask.question) or f"Run {tool}?", "detail": detail, "project": agent}
    grants = [{"key": grant.key, "title": _shown(grant.title)} for grant in ask.grants]
    return InterruptRequest(
        InterruptKind.APPROVAL,
        f"{sentence}{_REVIEWED if reviewed else _instruction(ask.grants)}",
        {**payload, **({"grants": grants} if grants else {})},
        tool=tool,
        arguments=arguments,
    )


def offered_grants(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the grants that the payload of an approval offers."""
    return tuple(grant["key"] for grant in payload.get("grants", ()))


def _instruction(grants: Sequence[Grant]) -> str:
    if not grants:
        return "Answer yes to run it; anything else declines."
    more = f"always to allow {_shown(grants[0].title)} in this conversation"
    return f"Answer yes to run it once, or {more}; anything else declines."


def _shown(text: str) -> str:
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
