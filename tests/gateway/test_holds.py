"""The bounds on requests that wait for a sleeping agent, with the values that the gateway uses."""

from contextlib import ExitStack

import pytest

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.wake.holds import HoldLimit, Holds


def test_hundred_requests_wait_for_an_agent_and_no_more():
    holds = Holds(Clock())
    with ExitStack() as waiting:
        for number in range(100):
            waiting.enter_context(holds.hold(("team", "callee"), caller=f"user:{number}", size=1))
        with (
            pytest.raises(HoldLimit, match="Too many requests wait for this agent to wake"),
            holds.hold(("team", "callee"), caller="user:ada", size=1),
        ):
            pytest.fail("the limit is larger")
        with holds.hold(("team", "other"), caller="user:ada", size=1):
            """Another agent has a limit of its own."""
    with holds.hold(("team", "callee"), caller="user:ada", size=1):
        """The end of a wait frees its place."""
