"""A fleet of which half sleeps: the operator writes nothing while no agent wakes or falls asleep."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.controlplane.conftest import Operator, Space

AGENTS = 40
SLEEP = {"since": "2026-01-01T00:00:00Z"}


def put_to_sleep(space: Space, name: str) -> None:
    """Write what the operator writes for an idle agent. No kubelet runs the pods, so no pod reports that it is idle."""
    space.admin.merge("Deployment", space.name, name, {"spec": {"replicas": 0}})
    space.admin.merge("Agent", space.name, name, {"status": {"sleep": SLEEP}}, subresource="/status")


def has_phases(space: Space, wanted: dict[str, str]) -> bool:
    found = {agent["metadata"]["name"]: agent.get("status", {}).get("phase") for agent in space.all("Agent")}
    return found == wanted


def test_fleet_half_asleep_causes_no_write(space: Space, alone: Callable[..., Operator]) -> None:
    operator = alone("gated", gateway={"enabled": True})
    names = [f"agent-{number:02}" for number in range(AGENTS)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: space.agent(name, sleep={"afterIdle": "10s"}), names))
    space.eventually(lambda: has_phases(space, dict.fromkeys(names, "Pending")), "all are written", seconds=300)
    operator.stop()
    asleep = names[::2]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: put_to_sleep(space, name), asleep))
    operator.start()
    phases: dict[str, Any] = {name: "Asleep" if name in asleep else "Pending" for name in names}
    space.eventually(lambda: has_phases(space, phases), "half of them sleep", seconds=300)
    operator.settled()
    before = space.versions()
    operator.restart()
    assert operator.settled() == {}, "a restart reconciles every agent and causes no write"
    assert space.versions() == before
