"""Interrupts: the question that a task asks a person, as stored in the task. Pure.

The question is stored only in the messages of the task, so every reader of the task sees the same question.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from a2a.types.a2a_pb2 import Message, Part, Role, Task, TaskStatus
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extension_codec import attach, data_part, read
from fleetwright_a2a.extensions import ASK, COST, HITL
from fleetwright_a2a.task_events import INTERRUPTED
from fleetwright_agent.protocol.arguments import arguments_digest, reviewable, with_integers
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest

_SECOND = 1_000_000_000
_LATEST_NS = 2**63 - 1
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class TaskInterrupt:
    identity: str
    kind: InterruptKind
    tool: str
    since_ns: int
    expires_ns: int | None = None
    grants: tuple[str, ...] = ()
    """The keys of the grants that an approval offers."""
    cost: Mapping[str, Any] | None = None
    """The cost of the task so far."""
    form: Mapping[str, Any] | None = None
    """The form as data (hitl-v1)."""
    digest: str = ""
    """The digest of the arguments that an approval is about; empty if the question does not have it."""
    arguments: Mapping[str, Any] | None = None
    """The arguments that an approval is about, unless they are too large."""

    def expired(self, now_ns: int) -> bool:
        return self.expires_ns is not None and now_ns >= self.expires_ns


def ask_message(ask: InterruptRequest, *, message_id: str, expires_ns: int | None, by: str = "") -> Message:
    """Return the message with the question, as text for people and as data for programs.

    Args: `by` names the people who decide, if the caller of the task does not.
    """
    parts = [Part(text=ask.prompt), data_part(HITL, ask.payload)]
    message = Message(message_id=message_id, role=Role.ROLE_AGENT, parts=parts)
    about: dict[str, Any] = {"id": ask.identity, "kind": ask.kind.value, "tool": ask.tool}
    if grants := [grant["key"] for grant in ask.payload.get("grants", ())]:
        about["grants"] = grants
    if expires_ns is not None:
        about["expires"] = moment(expires_ns)
    if by:
        about["by"] = by
    if ask.arguments is not None:
        about["argumentsDigest"] = arguments_digest(ask.arguments)
        if (shown := reviewable(ask.arguments)) is not None:
            about["arguments"] = shown
    attach(message, ASK, about)
    return message


def complete_approval(status: TaskStatus, *, now_ns: int, expiry_seconds: int, by: str) -> None:
    """Add the deadline, the deciders and the digest to an approval that an executor of the a2a-sdk asks for."""
    about = MessageToDict(status.message.metadata).get(ASK)
    if not isinstance(about, dict) or about.get("kind") != InterruptKind.APPROVAL:
        return
    if not status.HasField("timestamp"):
        status.timestamp.FromNanoseconds(now_ns)
    about.setdefault("expires", moment(now_ns + expiry_seconds * _SECOND))
    if by:
        about["by"] = by
    if isinstance(arguments := about.get("arguments"), dict):
        about["argumentsDigest"] = arguments_digest(arguments)
    status.message.metadata.update({ASK: about})
    if ASK not in status.message.extensions:
        status.message.extensions.append(ASK)


def pause_of(task: Task) -> TaskInterrupt | None:
    """Return the interrupt that the task waits for, or None if it does not wait or its question has another format.

    An a2a-sdk executor may put any message into an interrupted status.
    """
    if task.status.state not in INTERRUPTED:
        return None
    return _pause(task.status.message, task.status.timestamp.ToNanoseconds())


def _pause(message: Message, since_ns: int) -> TaskInterrupt | None:
    metadata = MessageToDict(message.metadata)
    about = metadata.get(ASK)
    if not isinstance(about, dict):
        return None
    expires = about.get("expires")
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        kind = InterruptKind(about["kind"])
        return TaskInterrupt(
            identity=about["id"],
            kind=kind,
            tool=about["tool"],
            since_ns=since_ns,
            expires_ns=None if expires is None else _nanoseconds(expires),
            grants=tuple(about.get("grants", ())),
            cost=metadata.get(COST),
            form=read(message, HITL) if kind is InterruptKind.FORM else None,
            **_reviewed(about),
        )
    return None


def _reviewed(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digest and the arguments. A digest in the question counts only if the question has no arguments."""
    arguments, digest = about.get("arguments"), about.get("argumentsDigest")
    if isinstance(arguments, dict):
        known = with_integers(arguments)
        return {"digest": arguments_digest(known), "arguments": known}
    is_digest = isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None
    return {"digest": digest if is_digest else arguments_digest({})}


def answered_pause(task: Task) -> TaskInterrupt | None:
    """Return the pause that the newest message of the caller answered."""
    spoken = [i for i, message in enumerate(task.history) if message.role == Role.ROLE_USER]
    if len(spoken) < 2:
        return None
    earlier = task.history[spoken[-2] + 1 : spoken[-1]]
    return next((found for message in reversed(earlier) if (found := _pause(message, 0))), None)


def newest_message(task: Task) -> Message | None:
    """Return the newest message of the caller."""
    return next((message for message in reversed(task.history) if message.role == Role.ROLE_USER), None)


def _nanoseconds(moment: str) -> int:
    return min(round(datetime.fromisoformat(moment).timestamp() * _SECOND), _LATEST_NS)


def moment(at_ns: int) -> str:
    """Format a time, given in nanoseconds since the epoch, as ISO 8601 in UTC, in whole seconds."""
    return datetime.fromtimestamp(at_ns / _SECOND, UTC).isoformat(timespec="seconds")
