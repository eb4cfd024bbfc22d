"""Derives parts of an Agent's status from the running agent's report: tools, missing parts, card and budgets. Pure.

After a restart of the operator or of the agent there is no report yet. Meanwhile the status keeps the last reported
values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fleetwright_api.condition_reasons import ProblemReason
from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_api.violation import Violation
from fleetwright_operator.status.agent_report import AgentReport, ModelHealth
from fleetwright_operator.status.conditions import DEGRADED, EVENT_LOOP_STALLED, WAITING_FOR_MEMORY
from fleetwright_operator.status.workload_health import CRASH, WorkloadHealth

Tools = list[dict[str, Any]]
MODEL_FAILING: Final = "ModelFailing"
_UNEXPLAINED: Final = frozenset({"RollingOut", "NotReady"})
"""Reasons of a pod that is not ready, where only the agent itself can say why."""
_STALLED: Final = (
    "the event loop of the agent is blocked, so the agent answers no requests. The log of its pod shows the call that"
    " blocks; correct the plugin or the tool. If it lasts for more than a minute, the kubelet restarts the agent"
)


def tools_of(
    previous: Mapping[str, Any], report: AgentReport | None, *, servers: Sequence[str], revision: str
) -> Tools:
    """Return `status.tools` of this revision, in the order of the spec. `previous` is the status so far."""
    kept = previous.get("tools", ()) if previous.get("revision") == revision else ()
    known = {entry["server"]: dict(entry) for entry in kept}
    if report is not None and report.revision == revision:
        known |= {
            name: {"server": name, "count": server.tools, **({"missing": [*server.missing]} if server.missing else {})}
            for name, server in report.servers.items()
            if server.tools is not None
        }
    return [known[name] for name in servers if name in known]


def degraded(
    report: AgentReport | None,
    tools: Tools,
    *,
    servers: Sequence[str],
    plugins: Sequence[str] = (),
    model_fails: bool = False,
) -> Violation | None:
    """Return a violation that lists the problems of the running agent: its loop, model, tools, servers and plugins."""
    reports = report.servers if report else {}
    lost = [(name, reports[name].unreachable) for name in servers if name in reports and reports[name].unreachable]
    short = [(entry["server"], ", ".join(entry["missing"])) for entry in tools if entry.get("missing")]
    stalled = report is not None and report.is_stalled
    texts = [_STALLED] if stalled else []
    texts += [_failing_model(report)] if model_fails else []
    texts += [f"McpServer {name!r} cannot be reached: {why}" for name, why in lost]
    texts += [f"McpServer {name!r} does not offer tools that the spec names: {names}" for name, names in short]
    large = [(name, ", ".join(reports[name].oversized)) for name in servers if name in reports]
    texts += [
        f"McpServer {name!r} offers tools that take too much of the model's window and are left out: {names}; shorten"
        " their descriptions, allow fewer tools, or set spec.toolSearch"
        for name, names in large
        if names
    ]
    failed = report.failed_plugins if report else {}
    texts += [f"plugin {name!r} is not loaded: {failed[name]}" for name in plugins if name in failed]
    if not texts:
        return None
    too_large = any(names for _, names in large)
    lesser: ProblemReason = "ToolsMissing" if short else "ToolsTooLarge" if too_large else "PluginNotLoaded"
    other: ProblemReason = MODEL_FAILING if model_fails else "McpServerUnreachable" if lost else lesser
    return Violation(EVENT_LOOP_STALLED if stalled else other, "; ".join(texts))


def with_stall(
    health: WorkloadHealth, report: AgentReport | None, *, revision: str, is_running: bool
) -> WorkloadHealth:
    """Return the health with a blocked event loop as the reason why the pod of this revision is not ready.

    Another reason of the Deployment or the pod is newer than the report, and therefore stays. The crash of an earlier
    process does not explain why the container is not ready now.

    Args:
        health: The health by the Deployment and its pods.
        report: The last report of the agent.
        revision: The current revision.
        is_running: True if the container of the agent runs.
    """
    if report is None or not report.is_stalled or report.revision != revision:
        return health
    replaceable = {*_UNEXPLAINED, *([CRASH] if is_running else [])}
    is_unexplained = health.status is False and health.reason in replaceable
    return WorkloadHealth(False, EVENT_LOOP_STALLED, _STALLED) if is_unexplained else health


def with_memory_wait(health: WorkloadHealth, report: AgentReport | None) -> WorkloadHealth:
    """Return the health with the holder of the memory volume as the reason why the pod is not ready.

    Another reason of the Deployment or the pod stays.
    """
    if report is None or not report.memory_holder or health.status is not False or health.reason not in _UNEXPLAINED:
        return health
    text = (
        f"pod {report.memory_holder!r} still uses the memory volume, and the next pod waits for it. It ends after its"
        " tasks, or after spec.drainSeconds. If it hangs, delete it with --force; if its node is lost, delete the Node"
    )
    return WorkloadHealth(False, WAITING_FOR_MEMORY, text)


def model_fails(previous: Mapping[str, Any], report: AgentReport | None) -> bool:
    """Return whether most model calls fail. Args: `previous` is the status so far.

    The state begins when half of the calls of a minute fail, and ends when less than a tenth do.
    """
    if report is None:
        return False
    if report.model is not ModelHealth.UNCLEAR:
        return report.model is ModelHealth.FAILING
    conditions = previous.get("conditions", ())
    return any(each["type"] == DEGRADED and each["reason"] == MODEL_FAILING for each in conditions)


def _failing_model(report: AgentReport | None) -> str:
    error = f" ({report.model_error})" if report is not None and report.model_error else ""
    return f"most calls to the model failed in the last minute{error}; check the provider and spec.model"


_REFUSALS: Final = {
    "model_unauthorized": Violation(
        "KeyRefused", "refuses the key (401){}. Check the Secret in apiKeySecretRef of the model"
    ),
    "model_unpaid": Violation(
        "AccountUnpaid",
        "reports that the account has no credit (402){}. Add credit, or use the key of another account",
    ),
    "model_forbidden": Violation(
        "AccessForbidden", "denies the key access to the model (403){}. Allow the model for this key"
    ),
    "model_not_found": Violation(
        "ModelUnknown", "does not know the model or the path (404){}. Check name and baseURL of the model"
    ),
}
"""Reasons and messages by the `reason` that the agent reports. `{}` stands for the provider's error text."""


def refused_model(report: AgentReport | None) -> Violation | None:
    """Return a violation with the models whose provider refused the last call, its error text and a remedy."""
    found = [each for each in report.refused_models if each.reason in _REFUSALS] if report else []
    if not found:
        return None
    texts = []
    for each in found:
        words = f": {each.message.rstrip('.')}" if each.message else ""
        texts.append(f"the provider of model {each.model!r} {_REFUSALS[each.reason].message.format(words)}")
    return replace(_REFUSALS[found[0].reason], message="; ".join(texts))


def drift(report: AgentReport | None, *, wanted: str, revision: str, serves_another: bool) -> Violation | None:
    """Return a violation if a pod of this revision keeps serving a card that differs from the compiled one."""
    if report is None or report.revision != revision or not serves_another:
        return None
    text = f"the pod serves card {report.card_digest} instead of {wanted}; check the image and the mounted file"
    return Violation("AnotherCard", text)


def over_budget(
    report: AgentReport | None, budgets: Sequence[BudgetSpec], *, shown: Sequence[Mapping[str, Any]] = ()
) -> Violation | None:
    """Return a violation that lists the spec's budgets which are used up.

    Args:
        report: The report of the current pod. A sleeping agent has none.
        budgets: The budgets of the spec.
        shown: The field `budgets` of the status, which counts if there is no report.
    """
    declared = {budget.period for budget in budgets}
    if report is None:
        full = [(entry["period"], entry["exhaustedUntil"]) for entry in shown if "exhaustedUntil" in entry]
    else:
        full = [(each.period, each.resets_at) for each in report.budgets if each.exceeded and each.period in declared]
    if not full:
        return None
    texts = [f"the budget of the {period.lower()} is used up until {until}" for period, until in full]
    return Violation("UsedUp", "; ".join(texts))
