"""An image that does not answer the startup probe is named; a crash, a start and an answering agent are not."""

from typing import Any

import pytest

from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.status.startup_probe import seconds_until_deadline, with_failed_startup_probe
from fleetwright_operator.status.workload_health import WorkloadHealth

NOW = 1_000_000
ROLLING = WorkloadHealth(False, "RollingOut", "waiting for the pod to be ready")
CRASHES = WorkloadHealth(False, "CrashLoop", "the container ended with exit code 137")


def pod(
    state: dict[str, Any], last: dict[str, Any] | None = None, *, ready_since: int = 0, **more: Any
) -> CachedObject:
    """Return a pod. Args: `ready_since` is when its condition Ready last changed; more facts of its container."""
    container = {"name": "agent", "image": "nginx", "state": state, "lastState": last or {}, **more}
    changed = {"type": "Ready", "status": "False", "lastTransitionTime": format_timestamp(ready_since)}
    facts = {"conditions": [changed], "containerStatuses": [container]}
    return CachedObject(
        kind="Pod", namespace="n", name="x", uid="u", resource_version="1", written_generation=1, projection=facts
    )


def running(seconds: int) -> dict[str, Any]:
    return {"running": {"startedAt": format_timestamp(NOW - seconds)}}


def ended(seconds: int, *, code: int = 137, reason: str = "Error", at: int = NOW) -> dict[str, Any]:
    times = {"startedAt": format_timestamp(at - seconds), "finishedAt": format_timestamp(at)}
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


@pytest.mark.parametrize(
    ("health", "observed", "wanted"),
    [
        pytest.param(ROLLING, pod(running(180)), "StartupProbeFailed", id="at the deadline"),
        pytest.param(ROLLING, pod(running(179)), "RollingOut", id="before the deadline"),
        pytest.param(ROLLING, pod(running(900), started=True), "RollingOut", id="it answers and is not ready"),
        pytest.param(ROLLING, pod(running(5), ended(180, code=0)), "StartupProbeFailed", id="it runs again"),
        pytest.param(CRASHES, pod(running(5), ended(210)), "StartupProbeFailed", id="it was killed"),
        pytest.param(CRASHES, pod(ended(185, code=143)), "StartupProbeFailed", id="it has ended"),
        pytest.param(CRASHES, pod({"waiting": {}}, ended(185)), "StartupProbeFailed", id="it waits for its next start"),
        pytest.param(CRASHES, pod(running(5), ended(179)), "CrashLoop", id="it was killed early"),
        pytest.param(CRASHES, pod(running(5), ended(500, code=1)), "CrashLoop", id="it ended by itself"),
        pytest.param(CRASHES, pod(running(5), ended(500, reason="OOMKilled")), "CrashLoop", id="out of memory"),
        pytest.param(
            CRASHES, pod(running(5), ended(500), ready_since=NOW - 3), "CrashLoop", id="it was ready in its last run"
        ),
        pytest.param(
            CRASHES,
            pod(running(5), ended(500), ready_since=NOW - 600),
            "StartupProbeFailed",
            id="was ready before",
        ),
        pytest.param(WorkloadHealth(False, "ImagePull", ""), pod(running(500)), "ImagePull", id="another reason stays"),
        pytest.param(WorkloadHealth(True, "RolledOut", ""), pod(running(500)), "RolledOut", id="it serves"),
    ],
)
def test_failed_startup_probe_is_the_reason(health: WorkloadHealth, observed: CachedObject, wanted: str) -> None:
    found = with_failed_startup_probe(health, [observed], container="agent", deadline=180, now=NOW)
    assert found.reason == wanted
    assert ("'nginx' did not answer GET /healthz on port 7871" in found.message) == (wanted == "StartupProbeFailed")


@pytest.mark.parametrize(
    ("observed", "wanted"),
    [
        pytest.param([pod(running(100)), pod(running(20))], 80, id="the first"),
        pytest.param([pod(running(100), started=True)], None, id="started"),
        pytest.param([pod(running(180))], None, id="too late"),
        pytest.param([pod({"waiting": {}})], None, id="not running"),
        pytest.param([], None, id="no pod"),
    ],
)
def test_seconds_until_a_runtime_counts_as_silent(observed: list[CachedObject], wanted: int | None) -> None:
    assert seconds_until_deadline(observed, container="agent", deadline=180, now=NOW) == wanted
