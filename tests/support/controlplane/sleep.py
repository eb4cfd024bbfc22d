"""Agents that sleep, without a kubelet that would run them."""

from tests.support.controlplane.administrator import Space

SLEEP = {"since": "2026-01-01T00:00:00Z"}


def put_to_sleep(space: Space, name: str) -> None:
    """Write what the operator writes for an idle agent. No kubelet runs the pods, so no pod reports that it is idle."""
    space.admin.merge("Deployment", space.name, name, {"spec": {"replicas": 0}})
    space.admin.merge("Agent", space.name, name, {"status": {"sleep": SLEEP}}, subresource="/status")


def has_phases(space: Space, wanted: dict[str, str]) -> bool:
    found = {agent["metadata"]["name"]: agent.get("status", {}).get("phase") for agent in space.list_objects("Agent")}
    return found == wanted
