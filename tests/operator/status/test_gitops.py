"""The health of objects in other tools: Argo CD with the shipped script, Flux and kustomize with kstatus."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from fleetwright_api.violation import Violation
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth

ROOT = Path(__file__).parents[3]
GITOPS = ROOT / "examples/gitops"
SOURCES = "".join(path.read_text() for folder in ("operator", "libs") for path in (ROOT / folder).rglob("*.py"))
NOW = "2026-03-01T12:00:00Z"
KINDS = ("Agent", "Skill", "McpServer")


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


def flux(kind: str, body: Mapping[str, Any]) -> str:
    """Evaluate the health expressions for a kind, in the order of Flux.

    The expressions are CEL in a subset that equals Python except for a few operators.
    """
    documents = yaml.safe_load_all((GITOPS / "flux/fleet.yaml").read_text())
    (listed,) = (
        spec["healthCheckExprs"] for spec in (each["spec"] for each in documents) if "healthCheckExprs" in spec
    )
    (found,) = (each for each in listed if each["kind"] == kind)
    whole = json.loads(json.dumps(body), object_hook=lambda fields: SimpleNamespace(**fields))
    for name, verdict in {"inProgress": "InProgress", "failed": "Failed", "current": "Current"}.items():
        text = re.sub(r"(\S+)\.exists\(c, ", r"holds(\1, lambda c: ", found[name])
        python = text.replace("&&", " and ").replace("||", " or ")
        holds = lambda every, look: any(look(each) for each in every)  # noqa: E731 - the macro of CEL
        if eval(python, {"holds": holds, "status": getattr(whole, "status", None), "metadata": whole.metadata}):
            return verdict
    return "InProgress"


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
STAGES = [
    pytest.param(FRESH, "Progressing", "InProgress", id="made a moment ago"),
    pytest.param(healthy(), "Healthy", "Current", id="ready"),
    pytest.param(judged(resolved=(), written="x", rolls_out=False), "Healthy", "Current", id="ready without pods"),
    pytest.param(behind(healthy()), "Progressing", "InProgress", id="ready, and changed a moment ago"),
    pytest.param(deleting(healthy()), "Progressing", "Terminating", id="being deleted"),
    pytest.param(deleting(DANGLING), "Progressing", "Terminating", id="being deleted while something is wrong"),
    pytest.param(judged(accepted=[Violation("ModelLimits", "x")]), "Degraded", "InProgress", id="a wrong spec"),
    pytest.param(DANGLING, "Degraded", "InProgress", id="a reference that dangles"),
    pytest.param(behind(DANGLING), "Progressing", "InProgress", id="mended a moment ago"),
    pytest.param(
        judged(resolved=[Violation("SkillPending", "x")]), "Progressing", "InProgress", id="a Skill that is being read"
    ),
    pytest.param(
        judged(resolved=[Violation("SourcePending", "x")], rolls_out=False),
        "Progressing",
        "InProgress",
        id="a Skill whose source is being looked at",
    ),
    pytest.param(
        judged(resolved=[Violation("SkillNotReady", "x")]), "Degraded", "InProgress", id="a Skill that cannot be used"
    ),
    pytest.param(stopped("Forbidden"), "Degraded", "InProgress", id="a write that is refused"),
    pytest.param(stopped("Conflict"), "Degraded", "InProgress", id="somebody else's child"),
    pytest.param(stopped("Preflight"), "Progressing", "InProgress", id="a revision that is being tried"),
    pytest.param(stopped("PreflightFailed"), "Degraded", "InProgress", id="a revision that cannot start"),
    pytest.param(waits_for(False, "RollingOut"), "Progressing", "InProgress", id="a pod that starts"),
    pytest.param(waits_for(None, "NotObserved"), "Progressing", "InProgress", id="nobody has looked"),
    pytest.param(waits_for(False, "CrashLoop"), "Degraded", "InProgress", id="a pod that ends again and again"),
    pytest.param(waits_for(False, "Suspending"), "Progressing", "InProgress", id="on its way to rest"),
    pytest.param(waits_for(False, "Suspended"), "Suspended", "InProgress", id="suspended"),
    pytest.param(waits_for(True, "Asleep"), "Healthy", "Current", id="asleep"),
    pytest.param(waits_for(False, "EventLoopStalled"), "Degraded", "InProgress", id="its event loop is blocked"),
    pytest.param(
        healthy(degraded=Violation("ToolsMissing", "no tool x")), "Healthy", "Current", id="it serves and lacks a tool"
    ),
]


@pytest.mark.parametrize(("body", "in_argo", "in_flux"), STAGES)
def test_argo_and_kstatus_read_each_stage(body, in_argo, in_flux):
    assert (argo(body), kstatus(body)) == (in_argo, in_flux)


INVALID = judged(accepted=[Violation("InvalidSkill", "x")])
IN_FLUX = [
    pytest.param(KINDS, FRESH, "InProgress", id="made a moment ago"),
    pytest.param(KINDS, behind(INVALID), "InProgress", id="mended a moment ago"),
    pytest.param(KINDS, healthy(), "Current", id="ready"),
    pytest.param(KINDS, INVALID, "Failed", id="a wrong spec"),
    pytest.param(KINDS, stopped("Rejected"), "Failed", id="a child that cannot be"),
    pytest.param(KINDS, stopped("Conflict"), "Failed", id="somebody else's child"),
    pytest.param(KINDS, DANGLING, "InProgress", id="a reference that dangles, and may be on its way"),
    pytest.param(["Agent"], stopped("PreflightFailed"), "Failed", id="a revision that cannot start"),
    pytest.param(["Agent"], waits_for(False, "Suspended"), "Current", id="suspended"),
    pytest.param(["Agent"], waits_for(True, "Asleep"), "Current", id="asleep"),
    pytest.param(["Agent"], waits_for(False, "RollingOut"), "InProgress", id="waking, as at any start of a pod"),
    pytest.param(
        ["Skill"],
        judged(resolved=[Violation("SourcePending", "x")], rolls_out=False),
        "InProgress",
        id="a source that is being looked at",
    ),
    pytest.param(["McpServer"], waits_for(None, "NotObserved"), "InProgress", id="tools that nobody has looked at"),
    pytest.param(["McpServer"], waits_for(False, "Unreachable"), "InProgress", id="a server that may come up"),
    pytest.param(["McpServer"], waits_for(False, "ToolsChanged"), "Failed", id="tools that are not the pinned ones"),
    pytest.param(["McpServer"], waits_for(False, "TooManyTools"), "Failed", id="more tools than are kept"),
]


@pytest.mark.parametrize(("kinds", "body", "wanted"), IN_FLUX)
def test_flux_status_separates_failures_from_waiting(kinds, body, wanted):
    assert {kind: flux(kind, body) for kind in kinds} == dict.fromkeys(kinds, wanted)


def test_flux_reasons_exist_in_the_source():
    named = re.findall(r"'(\w+)'", (GITOPS / "flux/fleet.yaml").read_text())
    assert [text for text in named if text not in {"True", "False"} and f'"{text}"' not in SOURCES] == []


def test_argo_verdict_reports_the_missing_part():
    said = argo_verdict(healthy(degraded=Violation("ToolsMissing", "no tool x")))
    assert said["message"] == "Degraded: no tool x"
    assert argo_verdict(DANGLING)["message"] == "SecretNotFound: no key"


def test_kstatus_of_a_new_object_needs_the_default_status():
    """The CRDs set a default status, because kstatus reports an object without conditions as current."""
    assert kstatus({**FRESH, "status": {}}) == "Current"
    for path in (ROOT / "crds").glob("*.yaml"):
        (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert {**FRESH, "status": status["default"]} == FRESH


def test_argo_health_reasons_exist_in_the_source():
    listed = re.findall(r"(\w+) = true", (GITOPS / "argocd/health.lua").read_text())
    assert len(listed) == 7
    assert [reason for reason in listed if f'"{reason}"' not in SOURCES] == []


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
