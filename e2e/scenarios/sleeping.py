"""Agents that sleep while they are idle."""

import json
import time

from e2e.scenarios.fleet import Fleet


def allow_sleep(fleet: Fleet, name: str) -> None:
    """Let an agent sleep after it was idle for ten seconds."""
    patch = json.dumps({"spec": {"sleep": {"afterIdle": "10s"}}})
    fleet.run("patch", f"agent/{name}", "--type=merge", "-p", patch)
    fleet.ready(f"agent/{name}")


def wait_for_sleep(fleet: Fleet, name: str) -> None:
    """Wait until the agent sleeps and has no pod. The operator reads its activity once a minute."""
    _scrape(fleet, name)
    fleet.until(lambda: phase_of(fleet, name) == "Asleep", f"{name} sleeps", seconds=240)
    fleet.until(lambda: _pods(fleet, name) == 0, f"{name} has no pod")


def phase_of(fleet: Fleet, name: str) -> str:
    return str(fleet.get(f"agent/{name}").get("status", {}).get("phase", ""))


def _scrape(fleet: Fleet, name: str) -> None:
    """Read the counters as Prometheus does. Without a scrape the operator waits for two minutes."""
    time.sleep(1.5)  # Both times are in whole seconds, and the scrape must be later than the last activity.
    read = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7871/metrics').read()"
    fleet.run("exec", fleet.pod_of(name), "--", "python", "-c", read)


def _pods(fleet: Fleet, name: str) -> int:
    return len(fleet.get("pods", f"--selector=fleetwright.dev/agent={name}")["items"])
