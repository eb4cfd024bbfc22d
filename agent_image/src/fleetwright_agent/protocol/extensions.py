"""What agents of this fleet say to each other beside the protocol: names on the wire, said once for both sides."""

import re
from collections.abc import Mapping
from typing import Any, Final

COST: Final = "https://proto-labs.ai/a2a/ext/cost-v1"
"""Metadata of the artifact that ends a task."""
CALL_PATH: Final = "https://fleetwright.dev/a2a/call-path/v1"
"""Metadata of a message: the agents it came through, `<namespace>/<name>`, first to last."""
TRACE: Final = "a2a.trace"
"""Metadata of a request: the `traceId` and `spanId` of whoever follows it through the fleet."""
MAX_CALLS: Final = 8
"""Agents a request may come through."""
ASK: Final = "https://fleetwright.dev/a2a/ask/v1"
"""Metadata of the message with which a task waits for a person: which ask it is, of what kind, until when."""
ANSWER: Final = "https://fleetwright.dev/a2a/answer/v1"
"""Metadata of the message that answers an ask: who said it, when, and for an approval what was decided."""
TRUNCATED: Final = "https://fleetwright.dev/a2a/truncated/v1"
"""Metadata of an artifact: there was more."""
CHOSEN_ID: Final = "https://fleetwright.dev/a2a/chosen-id/v1"
"""Metadata of a task: its caller chose its id, as only clients of A2A 0.1 do."""
GOES_ON: Final = "https://fleetwright.dev/a2a/goes-on/v1"
"""Metadata of what has an interrupted state: its work goes on meanwhile."""
DIRECT_REPLY: Final = "https://fleetwright.dev/a2a/direct-reply/v1"
"""Metadata of a status message: it is the whole answer, and was given as a message."""
ORIGIN: Final = "origin"
"""Metadata of a request: where it comes from, in a word of its caller's."""
TRIGGER: Final = "trigger"
"""Metadata of a request: what made its caller send it; `background` where no person did."""
BACKGROUND: Final = "background"
PRIORITY: Final = "priority"
"""Metadata of a request: how much it matters, in a word of its caller's. Nothing waits here that it could order."""
MODEL: Final = "model"
"""Metadata of a request: which of the agent's models is to work on it, where callers may choose."""
REASONING_EFFORT: Final = "reasoning_effort"
"""Metadata of a request: how long that model is to think, where callers may choose."""
LABELS: Final = (ORIGIN, TRIGGER, PRIORITY)
INCOGNITO: Final = "incognito"
"""Metadata of a request: whether it is to be forgotten, and to be answered without what earlier sessions were about."""
SKILL_HINT: Final = "skillHint"
"""Metadata of a request: the skill of the card that it is meant for."""
TOOL_CALL: Final = "https://proto-labs.ai/a2a/ext/tool-call-v1"
"""Metadata of a status message: that a tool was called, or what came of it."""
SKILL: Final = "https://proto-labs.ai/a2a/ext/skill-v1"
"""Metadata of an artifact of its own: a skill that was learned in the task."""
MODEL_FALLBACK: Final = "https://fleetwright.dev/a2a/model-fallback/v1"
"""Metadata of a status message: which model took over from which, and why."""
HITL: Final = "hitl-v1"
"""The data part that says what a person is asked, for programs. It has no URI."""
REASONING: Final = "reasoning-v1"
"""The data part with what the model thought. It has no URI."""


_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(-.*)?"
)


def trace_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The trace that a request belongs to, as far as it is one; it goes into logs and to peers."""
    said = metadata.get(TRACE)
    if not isinstance(said, Mapping):
        return {}
    known = {key: said.get(key) for key in ("traceId", "spanId")}
    return {key: value for key, value in known.items() if isinstance(value, str) and _is_hex(value)}


def trace_in(traceparent: str) -> dict[str, str]:
    """The trace that the W3C's header names; nothing where its sender does not record it."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None or not int(found["flags"], 16) & 1:
        return {}
    return {"traceId": found["trace"], "spanId": found["span"]}


def labels_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What a request says of where it comes from, why, and how much it matters: for logs, the trail and peers."""
    return {key: value for key in LABELS if isinstance(value := metadata.get(key), str)}


def leaves_no_memory(metadata: Mapping[str, Any]) -> bool:
    """Whether no session is remembered of it, and it is told of none (PA-097)."""
    return metadata.get(INCOGNITO) is True or metadata.get(TRIGGER) == BACKGROUND


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 32 and all(character in "0123456789abcdef" for character in text)
