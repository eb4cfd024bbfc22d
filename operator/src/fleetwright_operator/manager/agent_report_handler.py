"""Stores the reports of running agents, and queues the objects that a report concerns."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from fleetwright_api import durations, names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.kinds.views import agent_of
from fleetwright_operator.manager.agent_status_reader import StatusResult, is_unready
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.installation import is_managed_elsewhere
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.activity_status import REFRESH_SECONDS, activity_status
from fleetwright_operator.status.agent_report import AgentReport
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.report_parser import parse_report
from fleetwright_operator.status.workload_health import has_ended

_SCRAPE_SECONDS: Final = 15.0
"""Seconds until the operator reads an agent again that is idle for long enough and only waits for a scrape."""
_ENDING_SECONDS: Final = 1.0
"""Seconds until the operator reads a pod again that ends because its agent goes to sleep."""


def readable_pods(cache: Cache, settings: Settings) -> Iterator[CachedObject]:
    """Yield the pods whose status is read: those that do not end, and those that end because their agent sleeps.

    Pods of agents that another installation manages are left out. So are those that have ended, because their addresses
    may belong to other pods.

    An agent may accept a task after the report that lets it sleep. Only the status of its ending pod shows this task.
    """
    for pod in cache.all("Pod"):
        agent = cache.get(names.AGENT, pod.namespace, pod.labels.get(names.AGENT_LABEL, ""))
        if has_ended(pod) or (agent is not None and is_managed_elsewhere(agent, settings)):
            continue
        if not pod.deleting or (agent is not None and "sleep" in agent.projection["status"]):
            yield pod


def _may_sleep(spec: AgentSpec, report: AgentReport) -> bool:
    return spec.sleep is not None and report.activity is not None and not report.activity.is_busy


def _sleeps_in(spec: AgentSpec, report: AgentReport) -> float | None:
    """Return the seconds until the next read of an agent that may sleep; None if there is nothing to wait for."""
    activity = report.activity
    if spec.sleep is None or activity is None:
        return None
    # Both times are in whole seconds. With one more second, the next report surely shows the whole idle time.
    pause = 0 if activity.is_busy else activity.read_at - activity.last_active
    left = durations.seconds(spec.sleep.after_idle) - pause + 1
    if left > 0:
        return float(left)
    return None if activity.is_scraped else _SCRAPE_SECONDS


class AgentReportHandler:
    def __init__(self, cache: Cache, reports: AgentReports, enqueue: Callable[[Key], None]) -> None:
        """Args: `enqueue` queues an object whose status may change."""
        self._cache = cache
        self._reports = reports
        self._enqueue = enqueue

    def handle(self, pod: CachedObject, document: Any) -> StatusResult:
        """Store a report, and return the facts that decide when the agent is read again."""
        agent = pod.labels[names.AGENT_LABEL]
        before, report = (
            self._reports.get(pod.namespace, agent),
            parse_report(document, pod=pod.name, read_at=self._reports.now),
        )
        if is_unready(pod) and not pod.deleting and not report.is_stalled:
            # A process that starts does not know its budgets, servers and plugins yet.
            if before is None and not report.memory_holder:
                return StatusResult(is_complete=False)
            known = before or AgentReport()
            waiting = pod.name if report.memory_holder else known.pod
            report = replace(known, pod=waiting, is_stalled=False, memory_holder=report.memory_holder)
        servers = self._reports.put(pod.namespace, agent, report)
        entry = self._cache.get(names.AGENT, pod.namespace, agent)
        compiled = entry.projection["status"].get("card", {}).get("digest") if entry else None
        stale = entry is not None and self._is_stale(pod, entry, report)
        # An unchanged report is still relevant when the compiled card has changed, or when the agent may sleep.
        may_sleep = entry is not None and _may_sleep(agent_of(entry).spec, report)
        if report != before or may_sleep or stale or (entry and report.card_digest != compiled):
            self._enqueue((names.AGENT, pod.namespace, agent))
        for server in servers:
            if self._cache.get(names.MCP_SERVER, pod.namespace, server):
                self._enqueue((names.MCP_SERVER, pod.namespace, server))
        spec = agent_of(entry).spec if entry is not None else None
        if pod.deleting:
            return StatusResult(is_complete=True, sleeps_in=_ENDING_SECONDS)
        return StatusResult(report.is_complete, None if spec is None else _sleeps_in(spec, report))

    def _is_stale(self, pod: CachedObject, entry: CachedObject, report: AgentReport) -> bool:
        """Return whether the status shows another activity, and has not been refreshed for a while.

        The first costs are shown at once.
        """
        shown = entry.projection["status"].get("activity", {})
        if activity_status(report, shown, created=entry.created).get("activity", shown) == shown:
            return False
        has_first_costs = bool(report.spent_usd) and "spentUSD" not in shown
        return self._reports.may_refresh(pod.namespace, entry.name, seconds=REFRESH_SECONDS) or has_first_costs
