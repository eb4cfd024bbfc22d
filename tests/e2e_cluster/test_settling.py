"""When the objects of a namespace count as settled."""

from typing import Any

import pytest
from e2e.control_plane.client import Object
from e2e.faults.runtimes import RUNTIME
from e2e.faults.settling import settled

from fleetwright_api import names


def body(kind: str, name: str, **metadata: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, "uid": f"{kind}/{name}", "generation": 1, **metadata}, "spec": {}}


def ready(agent: Object) -> Object:
    return {**agent, "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}}


def asleep(agent: Object) -> Object:
    """Return an agent with a runtime that sleeps."""
    spec, status = {"sleep": {"afterIdle": "10s"}}, {**ready(agent)["status"], "sleep": {}}
    annotated = {**agent["metadata"], "annotations": {RUNTIME: '{"asks": {}}'}}
    return {**agent, "metadata": annotated, "spec": spec, "status": status}


LEAD = body("Agent", "lead")
POD = body("Pod", "lead-1", labels={names.AGENT_LABEL: "lead"})


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([ready(LEAD), POD], "", id="an agent and its pod"),
        pytest.param([LEAD, POD], "Agent lead is not ready", id="an agent that is not ready"),
        pytest.param([asleep(LEAD)], "", id="an agent that sleeps"),
        pytest.param([asleep(LEAD), POD], "Agent lead sleeps and still has a pod", id="an agent that goes to sleep"),
        pytest.param([POD], "Pod lead-1 is an orphan", id="the pod of a deleted agent"),
        pytest.param([body("Pod", "other")], "", id="a foreign pod"),
        pytest.param(
            [body("Service", "lead", ownerReferences=[{"kind": "Agent", "uid": "1"}])],
            "Service lead is an orphan",
            id="the child of a deleted agent",
        ),
        pytest.param(
            [body("Secret", "lead", deletionTimestamp="2026-01-01T00:00:00Z")],
            "Secret lead is being deleted",
            id="an object that is being deleted",
        ),
    ],
)
def test_settled_names_what_remains_to_be_done(objects: list[Object], reason: str) -> None:
    assert settled(objects) == reason
