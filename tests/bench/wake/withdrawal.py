"""Measures how soon a withdrawn caller is refused, while its token of the gateway is still valid.

The pod of the caller runs `edge_poller.py`. `kubectl patch` removes the caller from `spec.allowedCallers` of the other
agent, and adds it again afterwards. The same token is then accepted again, so it was valid all the time.
"""

import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.fleet import Fleet, agent
from tests.bench.table import Row
from tests.bench.wake.gateway_client import GatewayClient

_POLLER = Path(__file__).with_name("edge_poller.py")
_GATEWAY = f"http://fleetwright-gateway.{SYSTEM}"
"""The address in the proofs of the callers, which the gateway compares with its own."""
_CALLER, _CALLEE = "caller", "guarded"
_ACCEPTED = {"direct": 200, "gateway": 200}
_REFUSED = {"direct": 401, "gateway": 404}
_TARGET = 2.0


class Answers:
    """The current status of each way to call, and the time since which it is current."""

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        self.since: dict[str, float] = {}

    def follow(self, stream: IO[str]) -> None:
        for line in stream:
            name, status = line.split()
            self.since[name], self.status[name] = time.monotonic(), int(status)


def withdrawal(client: GatewayClient, *, times: int) -> list[Row]:
    """Withdraw the permission of a caller, and measure until both ways to call refuse it."""
    fleet = client.fleet
    caller = agent(_CALLER, peers=[{"name": _CALLEE}], fleet={"reach": "Direct"})  # With a reach, it has a token.
    fleet.apply(caller, agent(_CALLEE, allowedCallers=_allowed(_CALLER)))
    fleet.ready(f"agent/{_CALLER}", f"agent/{_CALLEE}")
    found: dict[str, list[float]] = {name: [] for name in _REFUSED}
    with _polling(fleet) as answers:
        for number in range(times):
            _patch(fleet, _CALLER)
            fleet.until(lambda: answers.status == _ACCEPTED, "the caller is accepted")
            time.sleep(1.0 + number % 10 / 10)  # The moments spread over the periods of the programs.
            began = time.monotonic()
            _patch(fleet)
            fleet.until(lambda: answers.status == _REFUSED, "the caller is refused", pause=0.02)
            for name, values in found.items():
                values.append(answers.since[name] - began)
    fleet.run("delete", f"agent/{_CALLER}", f"agent/{_CALLEE}", "--wait=false")  # This ends the poller.
    print(
        f"  seconds until a direct call is refused: {', '.join(f'{each:.2f}' for each in found['direct'])}", flush=True
    )
    return [
        row
        for name, what in (("direct", "a direct call with a valid token"), ("gateway", "a call through the gateway"))
        for row in (
            Row(f"kubectl patch to refusal of {what}, p50", statistics.median(found[name]), "s", _TARGET),
            Row(f"kubectl patch to refusal of {what}, maximum", max(found[name]), "s", _TARGET),
        )
    ]


@contextmanager
def _polling(fleet: Fleet) -> Iterator[Answers]:
    """Run the poller in the pod of the caller until the block ends."""
    space, answers = fleet.namespace, Answers()
    urls = (_GATEWAY, f"http://{_CALLEE}.{space}.svc.cluster.local", f"{space}/{_CALLEE}")
    program = ("--container=agent", "--", "python", "-c", _POLLER.read_text(), *urls)
    with fleet.kubectl.following("exec", fleet.pod_of(_CALLER), f"--namespace={space}", *program) as stream:
        threading.Thread(target=answers.follow, args=(stream,), daemon=True).start()
        yield answers


def _allowed(*callers: str) -> Mapping[str, object]:
    return {"agents": [{"name": name} for name in callers]}


def _patch(fleet: Fleet, *callers: str) -> None:
    patch = json.dumps({"spec": {"allowedCallers": _allowed(*callers)}})
    fleet.run("patch", f"agent/{_CALLEE}", "--type=merge", "-p", patch)
