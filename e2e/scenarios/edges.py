"""The answers that an agent gets from another agent while its permission is withdrawn and granted again."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.fleet import Fleet, agent
from tests.support.machine import ceiling

_POLLER = Path(__file__).with_name("edge_poller.py")
_GATEWAY = f"http://fleetwright-gateway.{SYSTEM}"
"""The address in the proofs of the callers, which the gateway compares with its own."""
_ANSWER_SECONDS = 0.5
"""The time in which the callee or the gateway answers a small request."""
ACCEPTED = {"direct": 200, "gateway": 200}
REFUSED = {"direct": 401, "gateway": 404}


class Answers:
    """The current status of each way to call, and the time since which it is current."""

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        self.since: dict[str, float] = {}

    def follow(self, stream: IO[str]) -> None:
        for line in stream:
            name, status = line.split()
            self.since[name], self.status[name] = time.monotonic(), int(status)


class Edge:
    """A caller and a callee, which declares its callers."""

    def __init__(self, fleet: Fleet, *, caller: str = "caller", callee: str = "guarded") -> None:
        self._fleet = fleet
        self._caller = caller
        self._callee = callee

    def create(self) -> None:
        # With a reach, the caller has a token for the gateway.
        caller = agent(self._caller, peers=[{"name": self._callee}], fleet={"reach": "Direct"})
        self._fleet.apply(caller, agent(self._callee, allowedCallers=_allowed(self._caller)))
        self._fleet.ready(f"agent/{self._caller}", f"agent/{self._callee}")

    def delete(self) -> None:
        """Delete both agents, which also ends the poller."""
        self._fleet.run("delete", f"agent/{self._caller}", f"agent/{self._callee}", "--wait=false")

    def grant(self) -> None:
        self._patch(self._caller)

    def withdraw(self) -> None:
        self._patch()

    def _patch(self, *callers: str) -> None:
        patch = json.dumps({"spec": {"allowedCallers": _allowed(*callers)}})
        self._fleet.run("patch", f"agent/{self._callee}", "--type=merge", "-p", patch)

    @contextmanager
    def polled(self) -> Iterator[Answers]:
        """Call the callee from the pod of the caller until the block ends."""
        space, answers = self._fleet.namespace, Answers()
        urls = (_GATEWAY, f"http://{self._callee}.{space}.svc.cluster.local", f"{space}/{self._callee}")
        seconds = str(ceiling(_ANSWER_SECONDS))
        program = ("--container=agent", "--", "python", "-c", _POLLER.read_text(), *urls, seconds)
        pod = self._fleet.pod_of(self._caller)
        with self._fleet.kubectl.following("exec", pod, f"--namespace={space}", *program) as stream:
            threading.Thread(target=answers.follow, args=(stream,), daemon=True).start()
            yield answers


def _allowed(*callers: str) -> Mapping[str, object]:
    return {"agents": [{"name": name} for name in callers]}
