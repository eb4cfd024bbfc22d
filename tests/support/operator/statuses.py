"""Objects with the status that the operator writes for an outcome, and what Flux must make of them."""

from typing import Any

from fleetwright_api.violation import Violation
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth

NOW = "2026-03-01T12:00:00Z"
KINDS = ("Agent", "Skill", "McpServer")


def judged(*, rolls_out: bool = True, **outcome: Any) -> dict[str, Any]:
    """Return an object of generation 2 with the status that the operator writes for that outcome."""
    status = custom_status({}, StageOutcomes(**outcome), generation=2, now=NOW, rolls_out=rolls_out)
    return {"metadata": {"name": "poet", "generation": 2}, "spec": {}, "status": status}


def healthy(**more: Any) -> dict[str, Any]:
    return judged(resolved=(), written="revision r", health=WorkloadHealth(True, "RolledOut", ""), **more)


def waits_for(status: bool | None, reason: str) -> dict[str, Any]:
    return judged(resolved=(), written="revision r", health=WorkloadHealth(status, reason, "why"))


def behind(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "generation": 3}}


def deleting(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": NOW}}


def stopped(reason: str) -> dict[str, Any]:
    return judged(resolved=(), programmed=Violation(reason, "why"))


FRESH = {"metadata": {"name": "poet", "generation": 1}, "spec": {}, "status": {"observedGeneration": -1}}
DANGLING = judged(resolved=[Violation("SecretNotFound", "no key")])
