"""Agents that sleep while they are idle."""

import contextlib
import json
import time
from functools import partial

from e2e.scenarios.fleet import Fleet, NoPod


def allow_sleep(fleet: Fleet, name: str) -> None:
    """Let an agent sleep after it was idle for ten seconds."""
    patch = json.dumps({"spec": {"sleep": {"afterIdle": "10s"}}})
    fleet.run("patch", f"agent/{name}", "--type=merge", "-p", patch)
    fleet.ready(f"agent/{name}")


def wait_for_sleep(fleet: Fleet, *names: str) -> None:
    """Wait until the agents sleep and have no pod. The operator reads their activity once a minute."""
    time.sleep(1.5)  # Timestamps have a resolution of one second, and the scrape must be later than the last activity.
    for name in names:
        _scrape(fleet, name)
    for name in names:
        fleet.until(partial(_sleeps, fleet, name), f"{name} sleeps and has no pod")


def _sleeps(fleet: Fleet, name: str) -> bool:
    pods = fleet.get("pods", f"--selector=fleetwright.dev/agent={name}")["items"]
    return phase_of(fleet, name) == "Asleep" and not pods


def phase_of(fleet: Fleet, name: str) -> str:
    return str(fleet.get(f"agent/{name}").get("status", {}).get("phase", ""))


def _scrape(fleet: Fleet, name: str) -> None:
    """Read the counters as Prometheus does. Without a scrape the operator waits for two minutes."""
    read = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7871/metrics').read()"
    with contextlib.suppress(NoPod):
        # The command fails if the pod ends meanwhile.
        fleet.kubectl.attempt("exec", fleet.pod_of(name), f"--namespace={fleet.namespace}", "--", "python", "-c", read)
