"""The ways of a request to the agent: directly, through the gateway, or through a bare pass-through.

Client, server in front and agent share the processors, so a rate alone does not tell which of them is slow. Therefore
each way is also measured by the processor time of the three processes.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.bench.echo.served import Served
from tests.bench.echo.wire import load

_ROUNDS = 15
_SECONDS = 0.4
"""Short, because the load of the machine by other programs changes within seconds."""


@dataclass(frozen=True)
class Way:
    port: int
    token: str
    door: str = "POST /a2a"
    front: Served | None = None
    """The server in front of the agent; None for direct calls."""


@dataclass
class Sample:
    """Requests that took the same way."""

    took: list[float] = field(default_factory=list)
    """Seconds of each request."""
    processor: dict[str, float] = field(default_factory=lambda: {"client": 0.0, "front": 0.0, "agent": 0.0})
    """Processor time in seconds, by process."""

    @property
    def rate(self) -> float:
        return len(self.took) / (_ROUNDS * _SECONDS)

    def share(self, part: float) -> float:
        """Return the duration below which this part of the requests lies."""
        return sorted(self.took)[int(part * (len(self.took) - 1))]

    def microseconds(self, process: str) -> float:
        """Return the processor time of a process for one request."""
        return 1e6 * self.processor[process] / len(self.took)


async def in_turn(ways: Mapping[str, Way], agent: Served, *, at_once: int) -> dict[str, Sample]:
    """Send requests on each way in turn, so that the load of the machine affects all ways alike."""
    samples = {name: Sample() for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            before = _processor(way, agent)
            samples[name].took += await load(
                way.port, way.token, "reply", at_once=at_once, seconds=_SECONDS, door=way.door
            )
            for process, seconds in _processor(way, agent).items():
                samples[name].processor[process] += seconds - before[process]
    return samples


def _processor(way: Way, agent: Served) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    front = 0.0 if way.front is None else way.front.cpu_seconds()
    return {"client": own.ru_utime + own.ru_stime, "front": front, "agent": agent.cpu_seconds()}
