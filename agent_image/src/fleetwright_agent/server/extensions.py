"""The A2A extensions that this runtime supports, and their payloads.

The agent declares, activates and emits the same set of extensions, which `spoken` returns. A payload contains only
fields that its extension defines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import uuid4

from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent
from a2a.utils.errors import InvalidParamsError

from fleetwright_a2a.extension_codec import attach
from fleetwright_a2a.extensions import (
    AGENT_INBOX,
    ANSWER,
    ASK,
    CALL_PATH,
    CHOSEN_ID,
    CONTEXT,
    CONTEXT_FORK,
    CONTEXT_TITLE,
    COST,
    DIRECT_REPLY,
    GOES_ON,
    KAGENT_HITL,
    MAX_CALLS,
    MODEL_FALLBACK,
    SKILL,
    TOOL_CALL,
    TRUNCATED,
    WORKSPACE_UNDO,
)
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.server import DialectName
from fleetwright_agent.protocol.frames import (
    CompactionEnd,
    CompactionStart,
    ContextReport,
    EarlierToolCall,
    Fallback,
    PeerCost,
    SkillLearned,
    ToolArtifact,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
)
from fleetwright_agent.tools.approval_policy import may_ask

_MAX_HOP = 127
_SHORT = 200
"""The largest number of characters of arguments in the short form of a tool call."""
OF_CALLERS = frozenset({CALL_PATH, ASK, CONTEXT_FORK, CONTEXT_TITLE, WORKSPACE_UNDO})
"""Extensions whose data callers send to the agent."""
LASTING = frozenset({AGENT_INBOX, KAGENT_HITL})
"""Extensions that stay active for a task whose caller has requested them once."""


@dataclass(slots=True)
class CostReport:
    """The usage of a turn so far."""

    calls: list[Usage] = field(default_factory=list)
    peers: dict[str, Decimal] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)
    """Ids of the tool calls that have started. A call that a restart interrupts counts once."""
    before: Mapping[str, Any] | None = None
    """The cost payload of the task up to its last question or approval request."""

    def add(self, item: Usage | PeerCost | EarlierToolCall) -> None:
        if isinstance(item, Usage):
            self.calls.append(item)
        elif isinstance(item, EarlierToolCall):
            self.tools.add(item.call_id)
        else:
            self.peers[item.peer] = self.peers.get(item.peer, Decimal(0)) + item.cost_usd

    def __bool__(self) -> bool:
        return bool(self.calls or self.peers or self.before)


def tokens_of(payload: Mapping[str, Any] | None) -> int:
    """Return the input and output tokens in a payload of cost-v1."""
    usage = (payload or {}).get("usage", {})
    return int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))


def cost(bill: CostReport, *, duration_ms: int, success: bool) -> dict[str, Any]:
    """Return the payload of cost-v1. If any call has no price, `costUsd` is omitted: the sum would be too low."""
    before = bill.before or {}
    used = before.get("usage", {})
    usage: dict[str, int] = {
        "input_tokens": sum(call.input_tokens for call in bill.calls) + int(used.get("input_tokens", 0)),
        "output_tokens": sum(call.output_tokens for call in bill.calls) + int(used.get("output_tokens", 0)),
    }
    if cached := sum(call.cache_read_tokens for call in bill.calls) + int(used.get("cache_read_input_tokens", 0)):
        usage["cache_read_input_tokens"] = cached
    if made := sum(call.cache_write_tokens for call in bill.calls) + int(used.get("cache_creation_input_tokens", 0)):
        usage["cache_creation_input_tokens"] = made
    duration = duration_ms + round(before.get("durationMs", 0))
    payload: dict[str, Any] = {"usage": usage, "durationMs": duration, "success": success}
    if model_calls := len(bill.calls) + int(before.get("modelCalls", 0)):
        payload["modelCalls"] = model_calls
        payload["models"] = sorted({*before.get("models", ()), *(call.model for call in bill.calls)})
    if tool_calls := len(bill.tools) + int(before.get("toolCalls", 0)):
        payload["toolCalls"] = tool_calls
    if before.get("estimated") or any(call.estimated for call in bill.calls):
        payload["estimated"] = True
    prices = [call.cost_usd for call in bill.calls]
    if used.get("input_tokens"):
        prices.append(Decimal(str(before["costUsd"])) if "costUsd" in before else None)
    known = [price for price in prices if price is not None]
    if known and len(known) == len(prices):
        payload["costUsd"] = _dollars(sum(known, Decimal(0)))
    peers = {peer: Decimal(str(usd)) for peer, usd in before.get("peersCostUsd", {}).items()}
    for peer, usd in bill.peers.items():
        peers[peer] = peers.get(peer, Decimal(0)) + usd
    if peers:
        payload["peersCostUsd"] = {peer: _dollars(usd) for peer, usd in peers.items()}
    return payload


def _dollars(amount: Decimal) -> float:
    return float(round(amount, 6))


def call_path(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the agents that forwarded a request.

    Raises:
        InvalidParamsError: The value is not a list of `<namespace>/<name>`.
    """
    value = metadata.get(CALL_PATH, [])
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(_is_hop(hop) for hop in value):
        raise InvalidParamsError(f"metadata[{CALL_PATH!r}] must be a list of <namespace>/<name>")
    return tuple(value)


def _is_hop(hop: object) -> bool:
    return isinstance(hop, str) and len(hop) <= _MAX_HOP and hop.count("/") == 1


def loop_refusal(path: Sequence[str], *, myself: str) -> str | None:
    """Return why a request is rejected, as text for its sender, or None if the request is accepted.

    A request is rejected if its call path contains this agent, or if the call path is too long.
    """
    if myself in path:
        return f"The request already came through {myself} ({' > '.join(path)}); answering it again would be a loop."
    if len(path) > MAX_CALLS:
        return f"The request came through {len(path)} agents; at most {MAX_CALLS} may pass it on."
    return None


def tool_call(frame: ToolStart | ToolOutput | ToolEnd) -> dict[str, Any]:
    """Return the payload of tool-call-v1. The turn has already truncated arguments and results to previews."""
    about = _call(frame)
    if isinstance(frame, ToolStart):
        return {**about, "phase": "started", "args": frame.arguments}
    if isinstance(frame, ToolOutput):
        return {**about, "phase": "output", "output": frame.text}
    ended = {"phase": "completed", "result": frame.result} if frame.ok else {"phase": "failed", "error": frame.result}
    return {**about, **ended, "outputChars": frame.characters}


def short_call(frame: ToolStart | ToolEnd) -> dict[str, Any]:
    """Return the short form of a tool call in context-v1."""
    if isinstance(frame, ToolStart):
        return {**_call(frame), "phase": "started", "args": frame.arguments[:_SHORT]}
    return {**_call(frame), "phase": "completed" if frame.ok else "failed", "outputChars": frame.characters}


def _call(frame: ToolStart | ToolOutput | ToolEnd | ToolArtifact) -> dict[str, Any]:
    within = {"parentToolCallId": frame.parent} if frame.parent else {}
    return {"toolCallId": frame.call_id, "name": frame.name, **within}


def model_fallback(frame: Fallback) -> dict[str, str]:
    return {"from": frame.failed, "to": frame.following, "reason": frame.reason}


def context_size(
    last: ContextReport | None, *, compactions: int, compaction: CompactionStart | CompactionEnd | None = None
) -> dict[str, Any]:
    """Return the payload of context-v1. Args: `compaction` has just started or ended."""
    size = {"model": last.model, "promptTokens": last.prompt_tokens, "windowTokens": last.window_tokens} if last else {}
    payload = {**size, "compactions": compactions}
    if isinstance(compaction, CompactionStart):
        return {**payload, "compaction": {"phase": "started", "tokensBefore": compaction.tokens_before}}
    if isinstance(compaction, CompactionEnd):
        tokens = {"tokensBefore": compaction.tokens_before, "tokensAfter": compaction.tokens_after}
        about = {"phase": "ended", "outcome": compaction.outcome, **tokens}
        return {**payload, "compaction": {**about, "trigger": compaction.trigger, "method": compaction.method}}
    return payload


def skill_artifact(task_id: str, context_id: str, learned: SkillLearned) -> TaskArtifactUpdateEvent:
    """Return a learned skill as a separate artifact, so that the answer's artifact contains only the answer."""
    name = str(learned.skill["name"])
    artifact = Artifact(artifact_id=f"{task_id}-skill-{name}", name=name, description=str(learned.skill["description"]))
    attach(artifact, SKILL, learned.skill, as_part=True)
    return TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact, last_chunk=True)


def tool_artifact(task_id: str, context_id: str, frame: ToolArtifact, *, about_call: bool) -> TaskArtifactUpdateEvent:
    """Return a file of a tool as a separate artifact. Args: `about_call` adds the tool call that returned the file."""
    file = frame.artifact
    part = Part(media_type=file.media_type, filename=file.name)
    if isinstance(file.content, str):
        part.text = file.content
    else:
        part.raw = file.content
    artifact = Artifact(artifact_id=str(uuid4()), name=file.name, parts=[part])
    if about_call:
        attach(artifact, TOOL_CALL, _call(frame))
    return TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact, last_chunk=True)


def spoken(config: AgentConfig, *, foreign: bool = False) -> frozenset[str]:
    """Return the URIs of the extensions that this agent supports. Its card declares the same extensions.

    Args:
        foreign: True if an a2a-sdk executor does the work. The card then also declares the executor's own extensions.
    """
    chosen = {CHOSEN_ID} if DialectName.V0_1 in config.dialects and len(config.dialects) > 1 else set()
    if foreign:
        return frozenset({TRUNCATED, DIRECT_REPLY, GOES_ON, *chosen})
    told = {TOOL_CALL} if config.extensions.tool_calls else set()
    sizes = {CONTEXT} if config.extensions.context else set()
    forks = {CONTEXT_FORK, CONTEXT_TITLE} if config.forks else set()
    undoes = {WORKSPACE_UNDO} if config.workspace is not None else set()
    falls = {MODEL_FALLBACK} if config.extensions.model_fallbacks and config.model.fallbacks else set()
    asks = {ASK, ANSWER, AGENT_INBOX, KAGENT_HITL} if may_ask(config) else set()
    learns = {SKILL} if config.learns else set()
    return frozenset({COST, CALL_PATH, TRUNCATED, *learns, *told, *sizes, *forks, *undoes, *falls, *asks, *chosen})
