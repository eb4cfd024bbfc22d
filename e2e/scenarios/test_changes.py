"""Edits and deletions, as GitOps tools make them: a new revision, a removed peer, a deleted agent."""

import json
from typing import Any

from e2e.scenarios.fleet import CHILDREN, Fleet, agent, children, serves_another
from e2e.scenarios.workloads import MISSING_IMAGE


def test_failing_revision_never_replaces_the_serving_one(fleet: Fleet) -> None:
    fleet.apply(agent("guard"))
    fleet.ready("agent/guard")
    caller, token = fleet.caller("client", of="guard"), fleet.token("guard")
    fleet.until(lambda: caller.reaches("guard", token=token), "the agent can be called")
    pod = fleet.pod_of("guard")

    fleet.apply(agent("guard", "Be another.", image=MISSING_IMAGE))
    held = fleet.until(
        lambda: "cannot be pulled" in fleet.condition("agent/guard", "Programmed")[2], "the reason is told"
    )
    print(f"an image that cannot be pulled was told after {held:.1f} s")
    assert fleet.condition("agent/guard", "Programmed")[1] == "Preflight"
    assert fleet.pod_of("guard") == pod
    assert "TASK_STATE_COMPLETED" in str(caller.send("guard", "Are you there?", token=token).result)

    fleet.apply(agent("guard"))
    fleet.ready("agent/guard")
    assert fleet.pod_of("guard") == pod, "the old spec is what runs"


def test_sidecar_is_preflighted_with_its_agent(fleet: Fleet) -> None:
    """A sidecar runs in the preflight pod and ends with it."""
    fleet.apply(agent("pair"))
    fleet.ready("agent/pair")
    pod = fleet.pod_of("pair")
    before = fleet.get(f"pod/{pod}")["spec"]["containers"][0]["image"]

    beside: dict[str, Any] = {"name": "beside", "image": MISSING_IMAGE}
    fleet.apply(agent("pair", podTemplate={"spec": {"containers": [beside]}}))
    fleet.until(lambda: "cannot be pulled" in fleet.condition("agent/pair", "Programmed")[2], "the reason is told")
    assert fleet.pod_of("pair") == pod

    beside |= {"image": before, "command": ["python", "-c", "import time; time.sleep(9e5)"]}
    fleet.apply(agent("pair", podTemplate={"spec": {"containers": [beside]}}))
    took = fleet.until(lambda: fleet.pod_of("pair") != pod, "the next pod is there")
    print(f"with a container beside it that never ends, its next pod was there after {took:.1f} s")
    fleet.ready("agent/pair")
    names = [container["name"] for container in fleet.get(f"pod/{fleet.pod_of('pair')}")["spec"]["containers"]]
    assert names == ["agent", "beside"]


def test_removed_peer_loses_token_and_network_path(fleet: Fleet) -> None:
    """A removed peer loses its token and its network path within seconds."""
    fleet.apply(agent("front", peers=[{"name": "back"}]), agent("back"))
    fleet.ready("agent/front", "agent/back")
    pod = fleet.pod_of("front")
    token = fleet.run("exec", pod, "--", "cat", f"/etc/fleetwright/auth/peer.{fleet.namespace}.back")
    fleet.until(lambda: fleet.reaches(pod, "back", 80), "the path is open")
    # A pod that has a copy of the token and may reach the agent is admitted while the call is authorised.
    thief = fleet.caller("thief", of="back")
    fleet.until(lambda: thief.reaches("back", token=token), "the token opens")

    fleet.run("patch", "agent/front", "--type=merge", "-p", json.dumps({"spec": {"peers": []}}))
    closed = fleet.until(
        lambda: thief.rpc("back", "ListTasks", {}, token=token, promised=1).status == 401,
        "the token is void",
        promised=5,
    )
    print(f"the removed peer's token was void after {closed:.1f} s")
    fleet.until(lambda: not fleet.reaches(fleet.pod_of("front"), "back", 80), "the path is closed")


def test_deleted_agent_leaves_only_its_retained_memory(fleet: Fleet) -> None:
    fleet.apply(
        agent("keeps"),
        agent("forgets", memory={"storage": {"retain": False}}),
        agent("light", memory={"storage": {"ephemeral": True}}),
    )
    fleet.ready("agent/keeps", "agent/forgets", "agent/light")
    assert _of(fleet, "light")
    assert not any("PersistentVolumeClaim" in child for child in _of(fleet, "light"))
    fleet.run("delete", "agent", "keeps", "forgets", "light")
    fleet.until(lambda: _of(fleet, "keeps") == {"PersistentVolumeClaim/keeps-memory"}, "only the memory is left")
    fleet.until(lambda: not _of(fleet, "forgets") and not _of(fleet, "light"), "nothing is left")

    fleet.apply(agent("keeps"))
    fleet.ready("agent/keeps")
    assert _of(fleet, "keeps") > {"PersistentVolumeClaim/keeps-memory"}


def _of(fleet: Fleet, name: str) -> set[str]:
    kinds: Any = (*CHILDREN, "deployments", "pods")
    return {
        child
        for child in children(fleet, *kinds)
        if child.split("/")[1].startswith(f"{name}-") or child.endswith(f"/{name}")
    }


def test_skill_change_rolls_out_its_agents(fleet: Fleet) -> None:
    fleet.apply(_skill("Say please."), agent("polite", skills=[{"name": "manners"}]))
    fleet.ready("agent/polite")
    before = fleet.get("agent/polite")["status"]["revision"]
    fleet.apply(_skill("Say thank you."))
    fleet.until(lambda: serves_another(fleet, "polite", before), "the agent runs with the new skill")
    shown = fleet.run("exec", fleet.pod_of("polite"), "--", "cat", "/etc/fleetwright/skills/manners/SKILL.md")
    assert "Say thank you." in shown


def _skill(rule: str) -> dict[str, Any]:
    document = f"---\nname: manners\ndescription: How to speak\n---\n{rule}\n"
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Skill",
        "metadata": {"name": "manners"},
        "spec": {"source": {"inline": {"files": {"SKILL.md": document}}}},
    }
