"""Edits and deletions, as GitOps tools make them: a new revision, a removed peer, a deleted agent."""

import json
from typing import Any

from e2e.scenarios.fleet import CHILDREN, Fleet, agent, children, text_of
from e2e.scenarios.workloads import MISSING_IMAGE


def test_instruction_change_rolls_out_and_keeps_conversations(fleet: Fleet) -> None:
    """New instructions roll out, and a conversation continues with its memory."""
    fleet.apply(agent("clerk", "You are the day clerk."))
    fleet.ready("agent/clerk")
    caller, token = fleet.caller("visitor", of="clerk"), fleet.token("clerk")
    fleet.until(lambda: caller.reaches("clerk", token=token), "the network lets the visitor in")
    caller.send("clerk", "My parrot is called Ida.", token=token, context="c1")
    before = fleet.get("agent/clerk")["status"]["revision"]

    fleet.apply(agent("clerk", "You are the night clerk."))
    fleet.until(lambda: _serves(fleet, "clerk", not_revision=before), "another revision is Ready")
    fleet.until(lambda: caller.reaches("clerk", token=token), "the new pod can be called")
    who = caller.send("clerk", "Who are you?", token=token).result["task"]
    assert "You are the night clerk." in text_of(who)
    asked = caller.send("clerk", "What is my parrot called?", token=token, context="c1").result["task"]
    assert "Ida" in text_of(asked)

    fleet.apply(agent("clerk", "You are the day clerk."))
    fleet.until(lambda: fleet.get("agent/clerk")["status"]["revision"] == before, "the old spec is the old revision")


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


def test_running_task_finishes_before_the_next_revision_serves(fleet: Fleet) -> None:
    fleet.apply(agent("slow", drainSeconds=60))
    fleet.ready("agent/slow")
    caller, token = fleet.caller("asker", of="slow"), fleet.token("slow")
    fleet.until(lambda: caller.reaches("slow", token=token), "the agent can be called")
    before = fleet.get("agent/slow")["status"]["revision"]
    asked = caller.send("slow", "Think about it [[pause:1]].", token=token, now=True).result["task"]["id"]
    fleet.apply(agent("slow", "Be faster.", drainSeconds=60))
    fleet.until(lambda: _serves(fleet, "slow", not_revision=before), "the next revision serves")
    fleet.until(lambda: caller.reaches("slow", token=token), "the new pod can be called")
    status = caller.task("slow", asked, token=token)["status"]
    assert status["state"] == "TASK_STATE_COMPLETED", status.get("message", {}).get("parts")


def _serves(fleet: Fleet, name: str, *, not_revision: str) -> bool:
    found = fleet.get(f"agent/{name}")
    ready = fleet.condition(f"agent/{name}", "Ready")[0] == "True"
    current = found["status"].get("observedGeneration") == found["metadata"]["generation"]
    return ready and current and found["status"]["revision"] != not_revision


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
        lambda: thief.rpc("back", "ListTasks", {}, token=token, timeout=10).status == 401,
        "the token is void",
        seconds=55,
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
    fleet.until(lambda: _serves(fleet, "polite", not_revision=before), "the agent runs with the new skill")
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


def test_suspended_agent_has_no_pod_and_resumes_with_its_memory(fleet: Fleet) -> None:
    fleet.apply(agent("sleeper"))
    fleet.ready("agent/sleeper")
    caller, token = fleet.caller("waker", of="sleeper"), fleet.token("sleeper")
    fleet.until(lambda: caller.reaches("sleeper", token=token), "the network lets the waker in")
    caller.send("sleeper", "My parrot is called Ida.", token=token, context="c1")

    fleet.apply(agent("sleeper", suspend=True))
    stopped = fleet.until(lambda: fleet.condition("agent/sleeper", "Available")[1] == "Suspended", "no pod is left")
    print(f"the agent was suspended after {stopped:.1f} s")
    fleet.until(lambda: not fleet.get("pods", "--selector=fleetwright.dev/agent=sleeper")["items"], "the pod is gone")

    fleet.apply(agent("sleeper"))
    fleet.ready("agent/sleeper")
    fleet.until(lambda: caller.reaches("sleeper", token=token), "it can be called again")
    asked = caller.send("sleeper", "What is my parrot called?", token=token, context="c1").result["task"]
    assert "Ida" in text_of(asked)
