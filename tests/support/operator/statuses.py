"""Objects with the status that the operator writes for an outcome, and what Flux must make of them."""

from typing import Any

from fleetwright_api.condition_reasons import ConditionReason, ProblemReason
from fleetwright_api.violation import Violation
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth

NOW = "2026-03-01T12:00:00Z"
INSTALLATION = "fleetwright-system/fleetwright"
KINDS = ("Agent", "Skill", "McpServer")


def object_with_status(*, rolls_out: bool = True, **outcome: Any) -> dict[str, Any]:
    """Return an object of generation 2 with the status that the operator writes for that outcome."""
    status = custom_status(
        {}, StageOutcomes(**outcome), generation=2, now=NOW, rolls_out=rolls_out, installation=INSTALLATION
    )
    return {"metadata": {"name": "poet", "generation": 2}, "spec": {}, "status": status}


def healthy_object(**more: Any) -> dict[str, Any]:
    return object_with_status(resolved=(), written="revision r", health=WorkloadHealth(True, "RolledOut", ""), **more)


def waiting_object(status: bool | None, reason: ConditionReason) -> dict[str, Any]:
    return object_with_status(resolved=(), written="revision r", health=WorkloadHealth(status, reason, "why"))


def with_unobserved_generation(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "generation": 3}}


def with_deletion_timestamp(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": NOW}}


def object_with_failure(reason: ProblemReason) -> dict[str, Any]:
    return object_with_status(resolved=(), programmed=Violation(reason, "why"))


NEW_OBJECT = {"metadata": {"name": "poet", "generation": 1}, "spec": {}, "status": {"observedGeneration": -1}}
OBJECT_WITHOUT_ITS_SECRET = object_with_status(resolved=[Violation("SecretNotFound", "no key")])
