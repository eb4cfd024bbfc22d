"""The outcome of a headless run and its exit code. Pure."""

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

from fleetwright_cli.terminal.model.values import PendingAsk, TaskCost, TaskPhase


class ExitCode(IntEnum):
    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    INPUT_REQUIRED = 3
    UNREACHABLE = 4
    TIMEOUT = 124
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    code: ExitCode
    state: str
    answer: str = ""
    reason: str = ""
    """Why the run did not complete, for people."""
    context_id: str = ""
    task_id: str = ""
    ask: PendingAsk | None = None
    cost: TaskCost | None = None
    files: tuple[str, ...] = ()
    truncated: bool = False


def code_of(phase: TaskPhase) -> ExitCode:
    if phase is TaskPhase.COMPLETED:
        return ExitCode.COMPLETED
    waits = phase in {TaskPhase.INPUT_REQUIRED, TaskPhase.AUTH_REQUIRED}
    return ExitCode.INPUT_REQUIRED if waits else ExitCode.FAILED


def outcome_document(outcome: RunOutcome) -> dict[str, Any]:
    """Return the outcome as JSON."""
    document: dict[str, Any] = {
        "type": "result",
        "exitCode": int(outcome.code),
        "state": outcome.state,
        "answer": outcome.answer,
        "contextId": outcome.context_id,
        "taskId": outcome.task_id,
    }
    if outcome.reason:
        document["reason"] = outcome.reason
    if outcome.ask is not None:
        document["ask"] = ask_document(outcome.ask)
    if outcome.cost is not None:
        document["cost"] = cost_document(outcome.cost)
    if outcome.files:
        document["files"] = list(outcome.files)
    if outcome.truncated:
        document["truncated"] = True
    return document


def ask_document(ask: PendingAsk) -> dict[str, Any]:
    document: dict[str, Any] = {"id": ask.identity, "taskId": ask.task_id, "kind": ask.kind, "prompt": ask.prompt}
    if ask.tool:
        document["tool"] = ask.tool
    if ask.arguments is not None:
        document["arguments"] = dict(ask.arguments)
    if ask.detail:
        document["detail"] = ask.detail
    if ask.expires:
        document["expires"] = ask.expires
    return document


def cost_document(cost: TaskCost) -> dict[str, Any]:
    document: dict[str, Any] = {
        "inputTokens": cost.input_tokens,
        "outputTokens": cost.output_tokens,
        "modelCalls": cost.model_calls,
        "toolCalls": cost.tool_calls,
        "models": list(cost.models),
        "durationMs": cost.duration_ms,
    }
    if cost.usd is not None:
        document["usd"] = float(cost.usd)
    return document


def exceeds(cost: TaskCost | None, limit: Decimal | None) -> bool:
    """Return whether a cost is above the limit. An unknown price never is."""
    return limit is not None and cost is not None and cost.usd is not None and cost.usd > limit
