"""The names of A2A extensions and metadata keys, shared by both sides of a call between agents."""

import re
from collections.abc import Mapping
from typing import Any, Final

from a2a.extensions.common import HTTP_EXTENSION_HEADER

LEGACY_HTTP_EXTENSION_HEADER: Final = f"X-{HTTP_EXTENSION_HEADER}"
"""The name of the header in A2A 0.3. The SDK's module for it imports the SDK's client, so it is defined again here."""
COST: Final = "https://proto-labs.ai/a2a/ext/cost-v1"
"""Metadata of the answer's artifact, or of a status message without an answer: the cost of the task."""
CALL_PATH: Final = "https://fleetwright.dev/a2a/call-path/v1"
"""Metadata of a message: the agents that it passed through, `<namespace>/<name>`, first to last."""
TRACE: Final = "a2a.trace"
"""Metadata of a request: the `traceId` and `spanId` of the caller's trace."""
MAX_CALLS: Final = 8
"""The largest number of agents that a request may pass through."""
ASK: Final = "https://fleetwright.dev/a2a/ask/v1"
"""Metadata of the message with which a task asks a person: the request's id, its kind, and when it expires."""
ANSWER: Final = "https://fleetwright.dev/a2a/answer/v1"
"""Metadata of the message that answers a question or approval request: who answered, when, and any decision."""
KAGENT_HITL: Final = "https://kagent.dev/extensions/hitl/v1"
"""Metadata of a question and of its answer, in the format of kagent, for clients that request the extension."""
AGENT_INBOX: Final = "https://fleetwright.dev/a2a/agent-inbox/v1"
"""Metadata of a question, as an interrupt of Agent Inbox, for clients that request the extension."""
CALLERS: Final = "https://fleetwright.dev/a2a/callers/v1"
"""Metadata of the first message of a task: the agents that the gateway has seen on the way, the first caller first."""
TRUNCATED: Final = "https://fleetwright.dev/a2a/truncated/v1"
TRUNCATED_REASON: Final = f"{TRUNCATED}/reason"
"""The key of the reason beside the mark."""
"""Metadata of a truncated artifact or message."""
CHOSEN_ID: Final = "https://fleetwright.dev/a2a/chosen-id/v1"
"""Metadata of a task whose caller chose its id, as only clients of A2A 0.1 do."""
GOES_ON: Final = "https://fleetwright.dev/a2a/goes-on/v1"
"""Metadata of a task in an interrupted state whose work continues without an answer."""
DIRECT_REPLY: Final = "https://fleetwright.dev/a2a/direct-reply/v1"
"""Metadata of a status message that is the whole answer, returned as a message."""
ORIGIN: Final = "origin"
"""Metadata of a request: its origin, in the caller's own term."""
TRIGGER: Final = "trigger"
"""Metadata of a request: its trigger; `background` if no person caused it."""
BACKGROUND: Final = "background"
PRIORITY: Final = "priority"
"""Metadata of a request: its priority. `high`, `normal` and `low` order the agent's queue; the agent logs and forwards
every value.
"""
MODEL: Final = "model"
"""Metadata of a request: which of the agent's models to use, if callers may choose."""
REASONING_EFFORT: Final = "reasoning_effort"
"""Metadata of a request: the model's reasoning effort, if callers may choose."""
LABELS: Final = (ORIGIN, TRIGGER, PRIORITY)
INCOGNITO: Final = "incognito"
"""Metadata of a request: answer without the summary of earlier sessions, and store no session."""
SKILL_HINT: Final = "skillHint"
"""Metadata of a request: the card's skill that it is meant for."""
TOOL_CALL: Final = "https://proto-labs.ai/a2a/ext/tool-call-v1"
"""Metadata of a status message: a tool call, or its result."""
SKILL: Final = "https://proto-labs.ai/a2a/ext/skill-v1"
"""Metadata of a separate artifact: a skill that the agent learned in the task."""
CONTEXT: Final = "https://fleetwright.dev/a2a/context/v1"
"""Metadata of a status message or of the answer's artifact: the size of the last prompt, and compactions."""
CONTEXT_FORK: Final = "https://fleetwright.dev/a2a/context-fork/v1"
"""Metadata of the first message of a conversation: the conversation with whose history it begins."""
CONTEXT_TITLE: Final = "https://fleetwright.dev/a2a/context-title/v1"
"""Metadata of a message: the title that its conversation gets. Metadata of a listed task: the title that it has."""
WORKSPACE_UNDO: Final = "https://fleetwright.dev/a2a/workspace-undo/v1"
"""Metadata of a message: the task whose file changes are undone. Metadata of the answer: the restored files."""
MODEL_FALLBACK: Final = "https://fleetwright.dev/a2a/model-fallback/v1"
"""Metadata of a status message: which model replaced another, and why."""
HITL: Final = "hitl-v1"
"""The name of the data part that holds a question for a person in machine-readable form. There is no URI."""
REASONING: Final = "reasoning-v1"
"""The name of the data part that holds the model's reasoning. There is no URI."""


_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(-.*)?"
)


def trace_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the valid parts of a request's trace context, for logs and for peers."""
    said = metadata.get(TRACE)
    if not isinstance(said, Mapping):
        return {}
    known = {key: said.get(key) for key in ("traceId", "spanId")}
    return {key: value for key, value in known.items() if isinstance(value, str) and _is_hex(value)}


def trace_in(traceparent: str) -> dict[str, str]:
    """Return the trace of a W3C `traceparent` header; empty if the header is invalid or its trace is not sampled."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None or not int(found["flags"], 16) & 1:
        return {}
    return {"traceId": found["trace"], "spanId": found["span"]}


def labels_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return a request's origin, trigger and priority, for logs, the audit trail and peers."""
    return {key: value for key in LABELS if isinstance(value := metadata.get(key), str)}


def leaves_no_memory(metadata: Mapping[str, Any]) -> bool:
    """Return whether the request neither stores a session nor sees earlier sessions."""
    return metadata.get(INCOGNITO) is True or metadata.get(TRIGGER) == BACKGROUND


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 32 and all(character in "0123456789abcdef" for character in text)
