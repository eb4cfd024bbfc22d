"""The routes of a request to the agent: direct, through the gateway, or through a minimal proxy.

Client, proxy and agent share the processors, so the rate does not show which of them is slow. Each sample therefore
also records the processor time of the three processes.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.bench.echo.served import Served
from tests.bench.echo.wire import load


@dataclass(frozen=True)
class Route:
    port: int
    token: str
    request_line: str = "POST /a2a"
    proxy: Served | None = None
    """The gateway or the minimal proxy; None for direct calls."""


@dataclass
class Sample:
    """Requests on the same route."""

    durations: list[float] = field(default_factory=list)
    """Seconds of each request."""
    cpu_seconds: dict[str, float] = field(default_factory=lambda: {"client": 0.0, "proxy": 0.0, "agent": 0.0})
    """Processor time in seconds, by process."""
    seconds: float = 0.0
    """The time in which requests were sent."""

    @property
    def rate(self) -> float:
        return len(self.durations) / self.seconds

    def quantile(self, part: float) -> float:
        """Return the duration below which this part of the requests lies."""
        return sorted(self.durations)[int(part * (len(self.durations) - 1))]

    def microseconds(self, process: str) -> float:
        """Return the processor time of a process for one request."""
        return 1e6 * self.cpu_seconds[process] / len(self.durations)


async def measure_alternating(
    routes: Mapping[str, Route], agent: Served, *, at_once: int, rounds: int, seconds: float
) -> dict[str, Sample]:
    """Send requests on each route in turn, so that the load of the machine affects all routes alike.

    `seconds` is the time of one turn. It is short, because the load by other programs changes within seconds.
    """
    samples = {name: Sample() for name in routes}
    for _ in range(rounds):
        for name, route in routes.items():
            before = _cpu_seconds(route, agent)
            samples[name].durations += await load(
                route.port, route.token, "reply", at_once=at_once, seconds=seconds, request_line=route.request_line
            )
            samples[name].seconds += seconds
            for process, used in _cpu_seconds(route, agent).items():
                samples[name].cpu_seconds[process] += used - before[process]
    return samples


def _cpu_seconds(route: Route, agent: Served) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    proxy = 0.0 if route.proxy is None else route.proxy.cpu_seconds()
    return {"client": own.ru_utime + own.ru_stime, "proxy": proxy, "agent": agent.cpu_seconds()}
