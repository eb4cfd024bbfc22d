"""A fleet of which half sleeps: the operator writes nothing while no agent wakes or falls asleep."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.controlplane.conftest import Operator, Space
from tests.support.controlplane.administrator import LONG_SECONDS
from tests.support.controlplane.sleep import has_phases, put_to_sleep

AGENTS = 40


def test_fleet_half_asleep_causes_no_write(space: Space, alone: Callable[..., Operator]) -> None:
    operator = alone("gated", gateway={"enabled": True})
    names = [f"agent-{number:02}" for number in range(AGENTS)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: space.agent(name, sleep={"afterIdle": "10s"}), names))
    space.eventually(
        lambda: has_phases(space, dict.fromkeys(names, "Pending")), "all are written", promised=LONG_SECONDS
    )
    operator.stop()
    asleep = names[::2]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: put_to_sleep(space, name), asleep))
    operator.start()
    phases: dict[str, Any] = {name: "Asleep" if name in asleep else "Pending" for name in names}
    space.eventually(lambda: has_phases(space, phases), "half of them sleep", promised=LONG_SECONDS)
    operator.wait_for_settled_writes()
    before = space.versions()
    operator.restart()
    assert operator.wait_for_settled_writes(events=True) == {}, "a restart reconciles every agent and causes no write"
    assert space.versions() == before
