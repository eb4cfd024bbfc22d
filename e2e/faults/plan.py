"""The plan of faults: one fault, or several in a row, for one write or watch event of one object in a namespace.

A write or event is named by its verb, kind and object name without the hash, and by its ordinal among those of the same
name. A first fault therefore affects the same write in each run, whatever the order of the operator's work. The faults
after it affect the next writes of that name. The operator works separately on objects of one namespace whose names
begin differently, so each of them may have faults at the same time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

Point = tuple[str, int]
"""The name of a write or event, and its ordinal among those of that name, from one."""


class Fault(StrEnum):
    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"
    UNAUTHORIZED = "401"
    CONFLICT = "409"
    EXPIRED = "410"
    REJECTED = "422"
    THROTTLED = "429"
    INTERNAL = "500"
    UNAVAILABLE = "503"
    GATEWAY = "504"
    TIMEOUT = "timeout"
    """The API server executes the request, and the operator receives no response."""
    RESET = "reset"
    """The API server does not execute the request, and the connection breaks."""
    DROPPED = "dropped"
    """The event never arrives."""


KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
"""The two kills of one point, in this order. After a kill before the write, the operator must repeat the write."""
ANSWERS = {
    Fault.UNAUTHORIZED: 401,
    Fault.CONFLICT: 409,
    Fault.EXPIRED: 410,
    Fault.REJECTED: 422,
    Fault.THROTTLED: 429,
    Fault.INTERNAL: 500,
    Fault.UNAVAILABLE: 503,
    Fault.GATEWAY: 504,
}
UNDONE = (
    Fault.CONFLICT,
    Fault.REJECTED,
    Fault.THROTTLED,
    Fault.INTERNAL,
    Fault.UNAVAILABLE,
    Fault.RESET,
)
"""Errors after which the operator must repeat the write."""
ERRORS = (*UNDONE, Fault.TIMEOUT)
"""The errors that the sweep injects into each write. The operator treats a 504 as a 503."""


@dataclass(frozen=True)
class Case:
    fault: Fault
    point: Point

    def __str__(self) -> str:
        name, number = self.point
        return f"{self.fault}: {name} #{number}"

    @property
    def subject(self) -> str:
        """The first word of the object's name. It is the name of the custom object to which the object belongs."""
        return self.point[0].rpartition(" ")[2].split("/")[1].partition("-")[0]


class Plan:
    """The scheduled cases of each namespace, the writes and events since they were scheduled, and the cases that
    occurred.
    """

    def __init__(self) -> None:
        self._due: dict[str, dict[Point, list[Case]]] = {}
        self.writes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.events: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.struck: defaultdict[str, set[Case]] = defaultdict(set)
        self._told: dict[tuple[str, str, str], bool] = {}
        self.outage: Callable[[str, str], Fault | None] = lambda _namespace, _name: None
        """A callback with the namespace and name of a write.

        While it returns a fault, that fault takes precedence over all cases.
        """

    def begin(self, namespace: str, cases: Iterable[Case] = ()) -> None:
        """Reset the counters and schedule these cases. Several cases at one point affect successive writes."""
        self.writes[namespace] = Counter()
        self.events[namespace] = Counter()
        self.struck[namespace] = set()
        due: defaultdict[Point, list[Case]] = defaultdict(list)
        for case in cases:
            due[case.point].append(case)
        self._due[namespace] = dict(due)

    def withdraw(self, namespace: str) -> None:
        """Cancel the cases that have not occurred yet."""
        self._due[namespace] = {}

    def on_write(self, namespace: str, name: str) -> Fault | None:
        self.writes[namespace][name] += 1
        return self.outage(namespace, name) or self._strikes(namespace, (name, self.writes[namespace][name]))

    def on_event(self, namespace: str, name: str, version: str) -> bool:
        """Return True if the event is dropped. An event counts once, and is dropped for all watchers or for none."""
        key = (namespace, name, version)
        if key not in self._told:
            self.events[namespace][name] += 1
            self._told[key] = self._strikes(namespace, (name, self.events[namespace][name])) is not None
        return self._told[key]

    def due(self, namespace: str) -> Collection[Point]:
        """Return the points at which a fault is scheduled."""
        return self._due.get(namespace, {}).keys()

    def total_writes(self, namespace: str) -> int:
        return self.writes[namespace].total()

    def _strikes(self, namespace: str, point: Point) -> Fault | None:
        due = self._due.get(namespace, {})
        if point not in due:
            return None
        case, *others = due.pop(point)
        if others:
            name, number = point
            due[name, number + 1] = others
        self.struck[namespace].add(case)
        return case.fault
