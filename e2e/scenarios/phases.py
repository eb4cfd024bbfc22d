"""Measures the phases from `kubectl apply` of an Agent to its condition Ready, by watches of kubectl."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from e2e.cluster.kubectl import Kubectl

OF_AGENT = "fleetwright.dev/agent"
_STATUS = "jsonpath={.status}{'\\n'}"
"""An output format of kubectl that prints one line for each event.

If a `range` is empty, kubectl prints nothing more for that watch.
"""
_KINDS = ("deployments", "pods", "agents")
PHASES = (
    ("deployments", "exists", "the operator wrote the Deployment"),
    ("pods", "exists", "Kubernetes made the pod"),
    ("pods", "PodScheduled", "a node was chosen"),
    ("pods", "PodReadyToStartContainers", "volumes and network of the pod"),
    ("pods", "started", "the container runs, and a probe was answered"),
    ("pods", "Ready", "the kubelet says that the pod is ready"),
    ("agents", "Ready", "the operator says that the Agent is Ready"),
)
Sighting = tuple[float, str, str]
"""Seconds since the start, the kind, and the words of the object's status."""


def words(status: str) -> str:
    """Return the facts of a status, which is JSON or empty: true conditions, and `started` containers."""
    found: dict[str, Any] = json.loads(status or "{}")
    conditions = [each["type"] for each in found.get("conditions", ()) if each["status"] == "True"]
    started = ["started" for each in found.get("containerStatuses", ()) if each.get("started")]
    return " ".join(["exists", *conditions, *started])


def first_seen(sightings: Iterable[Sighting]) -> dict[str, float]:
    """Return the end of each phase that was observed."""
    found: dict[str, float] = {}
    for seconds, kind, line in sorted(sightings):
        for of, word, phase in PHASES:
            if of == kind and word in line.split():
                found.setdefault(phase, seconds)
    return found


def table(found: dict[str, float]) -> str:
    """Return a line for each phase, with its end and its duration."""
    lines, before = [], 0.0
    for _, _, phase in PHASES:
        if phase in found:
            lines.append(f"{found[phase]:6.2f} s  {found[phase] - before:+6.2f} s  {phase}")
            before = found[phase]
    return "\n".join(lines)


@dataclass
class Watched:
    began: float
    sightings: list[Sighting] = field(default_factory=list)

    def read(self, kind: str, stream: IO[str]) -> None:
        for line in stream:
            self.sightings.append((time.monotonic() - self.began, kind, words(line.strip())))


@contextmanager
def watched(kubectl: Kubectl, namespace: str, agent: str) -> Iterator[Watched]:
    """Watch one Agent and its Deployment and pods; the clock starts with the block."""
    seen = Watched(time.monotonic())
    with ExitStack() as stack:
        for kind in _KINDS:
            only = f"--field-selector=metadata.name={agent}" if kind == "agents" else f"--selector={OF_AGENT}={agent}"
            command = ("get", kind, only, "--watch", f"--namespace={namespace}", "-o", _STATUS)
            stream = stack.enter_context(kubectl.following(*command))
            threading.Thread(target=seen.read, args=(kind, stream), daemon=True).start()
        time.sleep(1.0)  # wait until the watches are open
        seen.began = time.monotonic()
        seen.sightings.clear()  # They are of objects that existed before.
        yield seen
