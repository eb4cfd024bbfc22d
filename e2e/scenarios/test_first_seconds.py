"""Prints the phases from `kubectl apply` of one Agent to Ready, with the image on the node."""

from functools import partial

import pytest
from e2e.scenarios.fleet import Fleet
from e2e.scenarios.phases import OF_AGENT, PHASES, Watched, first_seen, table, watched

_SPEC = {"instructions": "Help.", "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"}}


@pytest.mark.parametrize("storage", [{}, {"ephemeral": True}], ids=["a new claim", "memory in the pod"])
def test_agent_is_ready_seconds_after_apply(fleet: Fleet, storage: dict[str, bool]) -> None:
    for number in range(3):  # The first agent may have to load the image.
        name = f"timed-{number}"
        spec = _SPEC | {"memory": {"storage": storage}}
        with watched(fleet.kubectl, fleet.namespace, name) as seen:
            fleet.apply(
                {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Agent", "metadata": {"name": name}, "spec": spec}
            )
            fleet.ready(f"agent/{name}")
            # The watch that `ready` reads and these three are separate connections, so these may hear of it later.
            fleet.until(partial(_all_seen, seen), "every watch told its phases")
        found = first_seen(seen.sightings)
        print(f"{name}:\n{table(found)}")
        fleet.run("delete", "agent", name, "--wait")
        fleet.until(partial(_no_pods, fleet, name), "its pod is gone")


def _all_seen(seen: Watched) -> bool:
    return first_seen(list(seen.sightings)).keys() == {phase for _, _, phase in PHASES}


def _no_pods(fleet: Fleet, agent: str) -> bool:
    return not fleet.get("pods", f"--selector={OF_AGENT}={agent}")["items"]
