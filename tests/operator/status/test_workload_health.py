"""The messages about a Deployment and its pods, which name a remedy."""

from dataclasses import replace

import pytest

from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.status.workload_health import deployment_health

UP = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


def entry(kind: str, **facts: object) -> CachedObject:
    return CachedObject(
        kind=kind, namespace="n", name="x", uid="u", resource_version="1", written_generation=2, projection=facts
    )


def deployment(status: dict, revision: str = "r2") -> CachedObject:
    return entry("Deployment", status=status, revision=revision)


def container(state: dict, last: dict | None = None) -> CachedObject:
    return entry("Pod", containerStatuses=[{"image": "img", "state": state, "lastState": last or {}}])


STATES = [
    pytest.param(None, (), None, "NotObserved", id="unknown while it was not seen"),
    pytest.param(deployment(UP), (), True, "RolledOut", id="the current revision serves"),
    pytest.param(deployment(UP, "r1"), (), False, "RollingOut", id="the old revision serves"),
    pytest.param(deployment({**UP, "observedGeneration": 1}), (), False, "RollingOut", id="the change was not seen"),
    pytest.param(deployment({**UP, "replicas": 2}), (), False, "RollingOut", id="the old pod is not gone"),
    pytest.param(deployment({**UP, "availableReplicas": 0}), (), False, "RollingOut", id="the pod is not ready"),
    pytest.param(
        deployment({"observedGeneration": 2}),
        [container({"waiting": {"reason": "ErrImagePull", "message": "no such image"}})],
        False,
        "ImagePull",
        id="the image cannot be pulled",
    ),
    pytest.param(
        deployment({"observedGeneration": 2}),
        [container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})],
        False,
        "CrashLoop",
        id="it was killed for its memory",
    ),
    pytest.param(
        deployment({"observedGeneration": 2}),
        [container({"running": {}}, {"terminated": {"exitCode": 137, "reason": "OOMKilled"}})],
        False,
        "CrashLoop",
        id="it runs for a moment between two crashes",
    ),
    pytest.param(
        deployment({"observedGeneration": 2}),
        [entry("Pod", phase="Failed", reason="Evicted", message="disk")],
        False,
        "PodFailed",
        id="it was evicted",
    ),
    pytest.param(
        deployment(
            {
                "observedGeneration": 2,
                "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}],
            }
        ),
        (),
        False,
        "Quota",
        id="a quota is exhausted",
    ),
    pytest.param(
        deployment(
            {
                "observedGeneration": 2,
                "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}],
            }
        ),
        (),
        False,
        "PodRefused",
        id="a policy refuses the pod",
    ),
    pytest.param(
        deployment({"observedGeneration": 2, "conditions": [{"reason": "ProgressDeadlineExceeded"}]}),
        (),
        False,
        "NotReady",
        id="it runs and never becomes ready",
    ),
]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param({"observedGeneration": 2, "replicas": 1}, "RolloutPaused", id="the change waits"),
        pytest.param({**UP, "availableReplicas": 0}, "RollingOut", id="its pod has started"),
        pytest.param(UP, "RolledOut", id="nothing waits"),
    ],
)
def test_deployment_health_names_a_paused_rollout(status, reason):
    found = deployment(status)
    paused = replace(found, projection={**found.projection, "paused": True})
    assert deployment_health(paused, (), revision="r2").reason == reason


EVICTED = replace(
    container({"terminated": {"exitCode": 137}}),
    name="evicted",
    created="2026-03-01T12:00:00Z",
    projection={"phase": "Failed", "reason": "Evicted", "message": "disk", "containerStatuses": []},
)


def test_deployment_health_ignores_an_evicted_pod_beside_its_successor():
    found = deployment({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1})
    starting = entry("Pod", phase="Pending")
    health = deployment_health(found, [EVICTED, starting], revision="r2")
    assert (health.reason, health.message) == ("RollingOut", "waiting for the pod to be ready")
    assert deployment_health(found, [EVICTED], revision="r2").reason == "PodFailed"


def test_deployment_health_of_a_suspended_agent_does_not_wait_for_an_evicted_pod():
    health = deployment_health(deployment(UP), [EVICTED], revision="r2", suspended="spec.suspend is true")
    assert health.reason == "Suspended"


@pytest.mark.parametrize(("found", "pods", "status", "reason"), STATES)
def test_deployment_health_maps_states_to_reasons(found, pods, status, reason):
    health = deployment_health(found, pods, revision="r2")
    assert (health.status, health.reason) == (status, reason)


PULLS = [
    pytest.param("no such image", "image 'img' cannot be pulled: ErrImagePull: no such image", id="its own"),
    pytest.param(
        'failed to pull and unpack image "registry.example.com/haiku@sha256:1": not found',
        "image 'registry.example.com/haiku@sha256:1' cannot be pulled: ",
        id="one that it mounts",
    ),
]


@pytest.mark.parametrize(("says", "wanted"), PULLS)
def test_deployment_health_names_the_image_not_pulled(says, wanted):
    pod = container({"waiting": {"reason": "ErrImagePull", "message": says}})
    health = deployment_health(deployment({"observedGeneration": 2}), [pod], revision="r2")
    assert health.message.startswith(wanted)


def _unschedulable(message: str) -> CachedObject:
    return entry("Pod", conditions=[{"type": "PodScheduled", "reason": "Unschedulable", "message": message}])


@pytest.mark.parametrize(
    ("storage_class", "remedy"),
    [("fast", "Check StorageClass 'fast'"), (None, "Check the default StorageClass of the cluster")],
)
def test_deployment_health_names_an_unbound_volume_and_its_class(storage_class, remedy):
    pod = _unschedulable("pod has unbound immediate PersistentVolumeClaims")
    claim = entry("PersistentVolumeClaim", phase="Pending", storage_class=storage_class)
    health = deployment_health(deployment({"observedGeneration": 2}), [pod], revision="r2", claim=claim)
    assert health.reason == "VolumeUnbound"
    assert "'x'" in health.message
    assert remedy in health.message


def test_deployment_health_names_the_remedy_for_too_little_memory():
    pod = container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})
    health = deployment_health(deployment({"observedGeneration": 2}), [pod], revision="r2")
    assert health.message.endswith("It used more memory than its limit: raise resources.limits.memory")


def test_deployment_health_reports_an_unschedulable_pod():
    pod = _unschedulable("0/3 nodes are available: insufficient memory")
    health = deployment_health(deployment({"observedGeneration": 2}), [pod], revision="r2")
    assert (health.reason, "insufficient memory" in health.message) == ("Unschedulable", True)


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        pytest.param((), "Suspended", id="no pod is left"),
        pytest.param((container({"running": {}}),), "Suspending", id="the pod still ends its tasks"),
    ],
)
def test_deployment_health_of_a_suspended_agent_is_unavailable(pods, reason):
    health = deployment_health(deployment({**UP, "replicas": 0}), pods, revision="r2", suspended="spec.suspend is true")
    assert (health.status, health.reason) == (False, reason)
    assert "spec.suspend is true" in health.message
