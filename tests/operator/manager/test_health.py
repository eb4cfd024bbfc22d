"""The liveness of a process whose API server does not answer."""

import pytest
from tests.support.sleeping_clock import SleepingClock

from fleetwright_kube.errors import api_error
from fleetwright_kube.lease import Lease, LeaseExpiredError
from fleetwright_operator.manager.health import ProcessHealth


async def test_health_survives_an_unreachable_api_server(api):
    """Restarts would only delay the operator."""
    clock = SleepingClock()
    health = ProcessHealth(clock=clock, resync_seconds=100)
    first = Lease(
        api,
        namespace="system",
        name="operator",
        identity="a",
        now=lambda: f"t{clock.now}",
        clock=clock,
        sleep=clock.sleep,
        on_attempt=health.record_request,
    )
    await first.acquire()
    api.fault = lambda number, what: api_error(503, "away")
    with pytest.raises(LeaseExpiredError):
        await first.hold()
    clock.limit = 600
    with pytest.raises(TimeoutError):
        await first.acquire()
    assert health.liveness_failure() == ""
    clock.now += 61
    assert "last asked for" in health.liveness_failure(), "a process that hangs is not alive"
