"""Parses the document that an agent serves on :7871/status. Pure.

An agent runs untrusted code, so each field is validated separately. Long values are cut, and invalid values are
dropped.
"""

import re
from collections.abc import Mapping
from typing import Any

from fleetwright_api.activity import parse_activity
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.agent_report import (
    AgentReport,
    AuditReport,
    BudgetReport,
    ModelHealth,
    OutcomeReport,
    RefusedModel,
    ServerReport,
)

_MESSAGE_LIMIT = 300
_SERVERS_LIMIT = 64
_MODELS_LIMIT = 16
_MISSING_LIMIT = 20
_PLUGINS_LIMIT = 16
_OUTCOMES_LIMIT = 32
_COUNT_LIMIT = 100_000
_REVISION = re.compile(r"[0-9a-f]{1,64}")
_HASH = re.compile(r"[0-9a-f]{64}")
_PROCESS = re.compile(r"[0-9a-f]{1,32}")
_LINES_LIMIT = 2**53
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REASON = re.compile(r"[a-z_]{1,64}")
_FAILING_FROM = 0.5
_HEALTHY_BELOW = 0.1
_DOLLARS_LIMIT = 1e9
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?")
"""An amount in US dollars with up to 12 decimals: the limit of a budget, or the cost of tasks."""
_TOKENS_LIMIT = 10**12
_HOLDER = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9 ]{0,252}")
"""The host name of a pod, or words for another process."""
_PERIODS = ("Hour", "Day", "Month")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MODEL = re.compile(r"[!-~]{1,128}")
_SKILL = re.compile(r"[!-~]{1,64}")
_TOOL = re.compile(r"[!-~]{1,128}")


def parse_report(document: Any, *, pod: str = "", read_at: int = 0) -> AgentReport:
    if not isinstance(document, Mapping):
        return AgentReport(pod=pod)
    audit = _audit(document.get("audit"))
    return AgentReport(
        pod=pod,
        revision=_matching(_REVISION, document.get("revision")),
        card_digest=_matching(_DIGEST, document.get("cardDigest")),
        servers=_servers(document.get("mcpServers")),
        budgets=_budgets(document.get("budgets")),
        failed_plugins=_failed_plugins(document.get("plugins")),
        activity=parse_activity(document.get("activity"), read_at=read_at, parse_time=parse_timestamp),
        model=_model_health(document.get("modelCalls")),
        model_error=_model_error(document.get("modelCalls")),
        refused_models=_refused_models(document.get("modelCalls")),
        is_stalled=_is_stalled(document.get("eventLoop")),
        memory_holder=_memory_holder(document.get("waitsForMemory")),
        running_tasks=_count(document.get("runningTasks")),
        spent_usd=_dollars(document.get("spentUsd")),
        outcomes=_outcomes(document.get("outcomes")),
        audit_process=audit.process if audit else "",
        audit=audit,
    )


def _model_health(told: Any) -> ModelHealth:
    if not isinstance(told, Mapping):
        return ModelHealth.HEALTHY
    calls, errors = _count(told.get("calls")), _count(told.get("errors"))
    share = errors / calls if calls else 0.0
    if share >= _FAILING_FROM:
        return ModelHealth.FAILING
    return ModelHealth.HEALTHY if share < _HEALTHY_BELOW else ModelHealth.UNCLEAR


def _model_error(told: Any) -> str:
    return _matching(_REASON, told.get("lastError")) if isinstance(told, Mapping) else ""


def _refused_models(told: Any) -> tuple[RefusedModel, ...]:
    listed = told.get("refused") if isinstance(told, Mapping) else None
    if not isinstance(listed, list):
        return ()
    return tuple(
        RefusedModel(
            model=each["model"],
            reason=_matching(_REASON, each.get("reason")),
            message=_printable(each.get("message"))[:_MESSAGE_LIMIT],
        )
        for each in listed[:_MODELS_LIMIT]
        if isinstance(each, Mapping) and _matching(_MODEL, each.get("model"))
    )


def _printable(text: Any) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in str(text or "")).split())


def _is_stalled(told: Any) -> bool:
    """Return whether the loop was blocked. The duration grows with each report, so the operator does not keep it."""
    return isinstance(told, Mapping) and _count(told.get("stalledSeconds")) > 0


def _memory_holder(told: Any) -> str:
    return _matching(_HOLDER, told.get("holder")) if isinstance(told, Mapping) else ""


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= _COUNT_LIMIT else 0


def _dollars(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _DOLLARS_LIMIT else 0.0


def _outcomes(listed: Any) -> tuple[OutcomeReport, ...]:
    if not isinstance(listed, list):
        return ()
    found = [each for each in listed[:_OUTCOMES_LIMIT] if isinstance(each, Mapping)]
    return tuple(outcome for each in found if (outcome := _outcome(each)) is not None)


def _outcome(told: Mapping[str, Any]) -> OutcomeReport | None:
    tasks, succeeded = _count(told.get("tasks")), _count(told.get("succeeded"))
    if not 0 <= succeeded <= tasks or not tasks:
        return None
    cost = _matching(_AMOUNT, told.get("costUsd"))
    usd = float(cost) if cost else None
    return OutcomeReport(skill=_matching(_SKILL, told.get("skill")), tasks=tasks, succeeded=succeeded, usd=usd)


def _audit(told: Any) -> AuditReport | None:
    if not isinstance(told, Mapping):
        return None
    end, resumed = _end_of_trail(told), _end_of_trail(told.get("resumed"))
    process = _matching(_PROCESS, told.get("process"))
    if end is None or resumed is None or not process:
        return None
    return AuditReport(lines=end[0], hash=end[1], process=process, resumed_lines=resumed[0], resumed_hash=resumed[1])


def _end_of_trail(told: Any) -> tuple[int, str] | None:
    if not isinstance(told, Mapping):
        return None
    lines, digest = told.get("lines"), _matching(_HASH, told.get("hash"))
    return (lines, digest) if type(lines) is int and 0 <= lines <= _LINES_LIMIT and digest else None


def _servers(listed: Any) -> dict[str, ServerReport]:
    if not isinstance(listed, list):
        return {}
    return {
        server["name"]: _server(server)
        for server in listed[:_SERVERS_LIMIT]
        if isinstance(server, Mapping) and isinstance(server.get("name"), str)
    }


def _failed_plugins(listed: Any) -> dict[str, str]:
    if not isinstance(listed, list):
        return {}
    return {
        each["name"]: str(each.get("message") or "no reason given")[:_MESSAGE_LIMIT]
        for each in listed[:_PLUGINS_LIMIT]
        if isinstance(each, Mapping) and _matching(_NAME, each.get("name")) and each.get("loaded") is False
    }


def _budgets(listed: Any) -> tuple[BudgetReport, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(
        BudgetReport(
            period=each["period"],
            exceeded=each.get("exceeded") is True,
            resets_at=_moment(each.get("resetsAt")),
            usd=_matching(_AMOUNT, each.get("usd")),
            tokens=_token_limit(each.get("tokens")),
            exhausted=each.get("exhausted") is True,
        )
        for each in listed[: len(_PERIODS)]
        if isinstance(each, Mapping) and each.get("period") in _PERIODS
    )


def _moment(value: Any) -> str:
    try:
        parse_timestamp(_matching(_MOMENT, value))
    except ValueError:
        return ""
    return str(value)


def _token_limit(value: Any) -> int:
    return value if type(value) is int and 0 < value <= _TOKENS_LIMIT else 0


def _server(server: Mapping[str, Any]) -> ServerReport:
    count = server.get("tools")
    return ServerReport(
        unreachable=""
        if server.get("reachable") is True
        else str(server.get("message") or "no connection")[:_MESSAGE_LIMIT],
        tools=count if type(count) is int and 0 <= count <= _COUNT_LIMIT else None,
        missing=_tool_names(server.get("missing")),
        oversized=_tool_names(server.get("oversized")),
    )


def _tool_names(listed: Any) -> tuple[str, ...]:
    names = [_matching(_TOOL, name) for name in listed[:_MISSING_LIMIT]] if isinstance(listed, list) else []
    return tuple(name for name in names if name)


def _matching(shape: re.Pattern[str], value: Any) -> str:
    return value if isinstance(value, str) and shape.fullmatch(value) else ""
