"""The health of objects in other tools: Argo CD with the shipped script, Flux and kustomize with kstatus.

`tests/controlplane/test_gitops.py` evaluates the health expressions for Flux.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from lupa.lua51 import LuaRuntime
from tests.support.operator.statuses import (
    KINDS,
    NEW_OBJECT,
    OBJECT_WITHOUT_ITS_SECRET,
    healthy_object,
    object_with_failure,
    object_with_status,
    waiting_object,
    with_deletion_timestamp,
    with_unobserved_generation,
)

from fleetwright_api.condition_reasons import ProblemReason
from fleetwright_api.violation import Violation

ROOT = Path(__file__).parents[3]
GITOPS = ROOT / "examples/gitops"
DECLARED = set(get_args(ProblemReason))


def argo(body: Mapping[str, Any]) -> str:
    """Return the result of the shipped script in the Lua version of Argo CD."""
    return str(argo_verdict(body)["status"])


def argo_verdict(body: Mapping[str, Any]) -> dict[str, str]:
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(json.loads(json.dumps(body)), recursive=True)
    return dict(lua.execute((GITOPS / "argocd/health.lua").read_text()))


def kstatus(body: Mapping[str, Any]) -> str:
    """Apply the rules of sigs.k8s.io/cli-utils/pkg/kstatus for custom resources, in their order."""
    metadata, status = body["metadata"], body.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    for condition in status.get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in {"Reconciling", "Stalled"}:
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    for condition in status.get("conditions", ()):
        if condition["type"] == "Ready":
            return "Current" if condition["status"] == "True" else "InProgress"
    return "Current"


STAGES = [
    pytest.param(NEW_OBJECT, "Progressing", "InProgress", id="made a moment ago"),
    pytest.param(healthy_object(), "Healthy", "Current", id="ready"),
    pytest.param(
        object_with_status(resolved=(), written="x", rolls_out=False), "Healthy", "Current", id="ready without pods"
    ),
    pytest.param(
        with_unobserved_generation(healthy_object()), "Progressing", "InProgress", id="ready, and changed a moment ago"
    ),
    pytest.param(with_deletion_timestamp(healthy_object()), "Progressing", "Terminating", id="being deleted"),
    pytest.param(
        with_deletion_timestamp(OBJECT_WITHOUT_ITS_SECRET),
        "Progressing",
        "Terminating",
        id="being deleted while something is wrong",
    ),
    pytest.param(
        object_with_status(accepted=[Violation("ModelLimits", "x")]), "Degraded", "InProgress", id="a wrong spec"
    ),
    pytest.param(OBJECT_WITHOUT_ITS_SECRET, "Degraded", "InProgress", id="a reference that dangles"),
    pytest.param(
        with_unobserved_generation(OBJECT_WITHOUT_ITS_SECRET), "Progressing", "InProgress", id="mended a moment ago"
    ),
    pytest.param(
        object_with_status(resolved=[Violation("SkillPending", "x")]),
        "Progressing",
        "InProgress",
        id="a Skill that is being read",
    ),
    pytest.param(
        object_with_status(resolved=[Violation("SourcePending", "x")], rolls_out=False),
        "Progressing",
        "InProgress",
        id="a Skill whose source is being looked at",
    ),
    pytest.param(
        object_with_status(resolved=[Violation("SkillNotReady", "x")]),
        "Degraded",
        "InProgress",
        id="a Skill that cannot be used",
    ),
    pytest.param(object_with_failure("Forbidden"), "Degraded", "InProgress", id="a write that is refused"),
    pytest.param(object_with_failure("Conflict"), "Degraded", "InProgress", id="somebody else's child"),
    pytest.param(object_with_failure("Preflight"), "Progressing", "InProgress", id="a revision that is being tried"),
    pytest.param(object_with_failure("PreflightFailed"), "Degraded", "InProgress", id="a revision that cannot start"),
    pytest.param(waiting_object(False, "RollingOut"), "Progressing", "InProgress", id="a pod that starts"),
    pytest.param(waiting_object(None, "NotObserved"), "Progressing", "InProgress", id="nobody has looked"),
    pytest.param(waiting_object(False, "CrashLoop"), "Degraded", "InProgress", id="a pod that ends again and again"),
    pytest.param(waiting_object(False, "Suspending"), "Progressing", "InProgress", id="on its way to rest"),
    pytest.param(waiting_object(False, "Suspended"), "Suspended", "InProgress", id="suspended"),
    pytest.param(waiting_object(True, "Asleep"), "Healthy", "Current", id="asleep"),
    pytest.param(waiting_object(False, "EventLoopStalled"), "Degraded", "InProgress", id="its event loop is blocked"),
    pytest.param(
        healthy_object(degraded=Violation("ToolsMissing", "no tool x")),
        "Healthy",
        "Current",
        id="it serves and lacks a tool",
    ),
]


@pytest.mark.parametrize(("body", "in_argo", "in_flux"), STAGES)
def test_argo_and_kstatus_read_each_stage(body, in_argo, in_flux):
    assert (argo(body), kstatus(body)) == (in_argo, in_flux)


def test_argo_verdict_reports_the_missing_part():
    said = argo_verdict(healthy_object(degraded=Violation("ToolsMissing", "no tool x")))
    assert said["message"] == "Degraded: no tool x"
    assert argo_verdict(OBJECT_WITHOUT_ITS_SECRET)["message"] == "SecretNotFound: no key"


def test_kstatus_of_a_new_object_needs_the_default_status():
    """The CRDs set a default status, because kstatus reports an object without conditions as current."""
    assert kstatus({**NEW_OBJECT, "status": {}}) == "Current"
    for path in (ROOT / "crds").glob("*.yaml"):
        (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert {**NEW_OBJECT, "status": status["default"]} == NEW_OBJECT


def test_argo_health_reasons_are_declared():
    listed = re.findall(r"(\w+) = true", (GITOPS / "argocd/health.lua").read_text())
    assert len(listed) == 7
    assert set(listed) <= DECLARED


def test_flux_reasons_are_declared():
    text = (GITOPS / "flux/fleet.yaml").read_text()
    listed = re.findall(r"c\.reason (?:== '(\w+)'|in \[([^]]*)])", text)
    reasons = {word for one, several in listed for word in [one, *re.findall(r"'(\w+)'", several)] if word}
    assert len(reasons) == 7
    assert reasons <= DECLARED


def test_argo_config_has_the_same_script_for_each_kind():
    script = (GITOPS / "argocd/health.lua").read_text()
    data = yaml.safe_load((GITOPS / "argocd/argocd-cm.yaml").read_text())["data"]
    assert data == {f"resource.customizations.health.fleetwright.dev_{kind}": script for kind in KINDS}


async def test_argo_and_kstatus_follow_the_life_of_an_agent(world, api, objects):
    def read() -> tuple[str, str]:
        body = api.find("Agent", "poet")
        return argo(body), kstatus(body)

    api.put({**objects.agent(), "status": {"observedGeneration": -1}})
    assert read() == ("Progressing", "InProgress")
    await world.start()
    await world.settle()
    assert read() == ("Progressing", "InProgress")
    api.roll_out("poet")
    await world.settle()
    assert read() == ("Healthy", "Current")
    api.put(objects.agent(suspend=True))
    assert read() == ("Progressing", "InProgress")
    await world.settle()
    assert read() == ("Suspended", "InProgress")


async def test_operator_upgrade_changes_no_object(world, api, objects, make_world: Callable[..., Any], settings):
    """After a rollout of the operator, a pod with another identity takes over the existing objects."""
    api.put(objects.skill())
    api.put(objects.server())
    api.put(objects.agent("muse"))
    api.put(objects.agent(skills=[{"name": "haiku"}], mcpServers=[{"name": "tools"}], peers=[{"name": "muse"}]))
    await world.start()
    await world.settle()
    for name in ("poet", "muse"):
        api.roll_out(name)
    await world.settle()
    await world.stop()
    before, versions = api.snapshot(), api.versions()
    assert any(key.startswith("Deployment/") for key in before)

    second = make_world(api, replace(settings, identity="another-pod"))
    await second.start()
    await second.settle()
    await second.stop()
    assert api.snapshot() == before
    assert api.versions() == versions
