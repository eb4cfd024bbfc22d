"""One open approval as the operator reads it: bounded, and without secrets. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from a2a.types.a2a_pb2 import Task
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extension_codec import read
from fleetwright_a2a.extensions import CALLERS, HITL
from fleetwright_agent.config.callers import agents_of
from fleetwright_agent.protocol.arguments import canonical_size
from fleetwright_agent.protocol.interrupts import TaskInterrupt

_TITLE: Final = 256
_PREVIEW: Final = 4096
_ARGUMENTS: Final = 4096
"""The largest size of arguments that a person may see and change, in bytes."""
_MAX_PROPERTIES: Final = 256
"""The largest number of arguments in the schema of Approvals."""
_CUT: Final = "…"


def listed_approval(owner: str, task: Task, pause: TaskInterrupt, *, redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the description of the approval.

    Args:
        redact: Replaces the secrets in a text or in a JSON value.
    """
    question = read(task.status.message, HITL) or {}
    return {
        "task": task.id,
        "context": task.context_id,
        "ask": pause.identity,
        "tool": pause.tool,
        "title": _bounded(redact(_text(question, "title") or f"Run {pause.tool}?"), _TITLE),
        "preview": _bounded(redact(_text(question, "detail") or _said(task)), _PREVIEW),
        "arguments": shown_arguments(pause, redact),
        "argumentsDigest": pause.digest,
        "requestedBy": owner,
        "chain": list(chain_of(owner, task)),
        "createdAt": timestamp(pause.since_ns),
        "expiresAt": None if pause.expires_ns is None else timestamp(pause.expires_ns),
    }


def chain_of(owner: str, task: Task) -> tuple[str, ...]:
    """Return the agents that the request came through, the first caller first."""
    first = MessageToDict(task.history[0].metadata) if task.history else {}
    stored = first.get(CALLERS)
    known = tuple(each for each in stored if isinstance(each, str)) if isinstance(stored, list) else ()
    return known or agents_of(owner)


def timestamp(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_arguments(pause: TaskInterrupt, redact: Callable[[Any], Any]) -> Mapping[str, Any] | None:
    """Return the arguments, or None if a person could not see all of them. Only visible arguments can be changed."""
    arguments = pause.arguments
    if arguments is None or len(arguments) > _MAX_PROPERTIES or canonical_size(arguments) > _ARGUMENTS:
        return None
    return arguments if redact(arguments) == arguments else None


def _said(task: Task) -> str:
    """Return the text of the question. An executor of the a2a-sdk may send nothing else."""
    return "\n".join(part.text for part in task.status.message.parts if part.HasField("text"))


def _text(question: Mapping[str, Any], key: str) -> str:
    value = question.get(key)
    return value if isinstance(value, str) else ""


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - len(_CUT)]}{_CUT}"
