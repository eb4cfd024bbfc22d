"""Measures how soon a withdrawn caller is refused, while its token of the gateway is still valid.

`kubectl patch` removes the caller from `spec.allowedCallers` of the other agent, and adds it again afterwards. The same
token is then accepted again, so it was valid all the time.
"""

import statistics
import time

from e2e.scenarios.edges import ACCEPTED, REFUSED, Edge
from tests.bench.table import Row
from tests.bench.wake.gateway_client import GatewayClient

_TARGET = 2.0


def withdrawal(client: GatewayClient, *, times: int) -> list[Row]:
    """Withdraw the permission of a caller, and measure until both ways to call refuse it."""
    fleet, edge = client.fleet, Edge(client.fleet)
    edge.create()
    found: dict[str, list[float]] = {name: [] for name in REFUSED}
    with edge.polled() as answers:
        for number in range(times):
            edge.grant()
            fleet.until(lambda: answers.status == ACCEPTED, "the caller is accepted")
            time.sleep(1.0 + number % 10 / 10)  # The moments spread over the periods of the programs.
            began = time.monotonic()
            edge.withdraw()
            fleet.until(lambda: answers.status == REFUSED, "the caller is refused", pause=0.02)
            for name, values in found.items():
                values.append(answers.since[name] - began)
    edge.delete()
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
