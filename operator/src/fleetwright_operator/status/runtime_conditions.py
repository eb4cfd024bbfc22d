"""Derives parts of an Agent's status from the running agent's report: tools, missing parts, card and budgets. Pure.

After a restart of the operator or of the agent there is no report yet. Meanwhile the status keeps the last reported
values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_api.violation import Violation
from fleetwright_operator.status.agent_reports import AgentReport

Tools = list[dict[str, Any]]


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
    report: AgentReport | None, tools: Tools, *, servers: Sequence[str], plugins: Sequence[str] = ()
) -> Violation | None:
    """Return a violation that lists the tools, servers and plugins that the running agent lacks."""
    reports = report.servers if report else {}
    lost = [(name, reports[name].unreachable) for name in servers if name in reports and reports[name].unreachable]
    short = [(entry["server"], ", ".join(entry["missing"])) for entry in tools if entry.get("missing")]
    texts = [f"McpServer {name!r} cannot be reached: {why}" for name, why in lost]
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
    lesser = "ToolsMissing" if short else "ToolsTooLarge" if too_large else "PluginNotLoaded"
    reason = "McpServerUnreachable" if lost else lesser
    return Violation(reason, "; ".join(texts))


def drift(report: AgentReport | None, *, wanted: str, revision: str, serves_another: bool) -> Violation | None:
    """Return a violation if a pod of this revision keeps serving a card that differs from the compiled one."""
    if report is None or report.revision != revision or not serves_another:
        return None
    text = f"the pod serves card {report.card_digest} instead of {wanted}; check the image and the mounted file"
    return Violation("AnotherCard", text)


def over_budget(report: AgentReport | None, budgets: Sequence[BudgetSpec]) -> Violation | None:
    """Return a violation that lists the spec's budgets which the agent reports as used up."""
    declared = {budget.period for budget in budgets}
    full = [each for each in report.budgets if each.exceeded and each.period in declared] if report else []
    if not full:
        return None
    texts = [f"the budget of the {each.period.lower()} is used up until {each.resets_at}" for each in full]
    return Violation("UsedUp", "; ".join(texts))
