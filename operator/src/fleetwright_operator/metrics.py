"""Every Prometheus name of the operator. Names and labels are an API: dashboards and alerts depend on them.

No label ever holds the name of an object: their number has no bound.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetwright_operator.cluster.entry import Entry

_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)


class Metrics:
    """One registry per process in production, one per test in tests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.reconciles = Counter(
            "fleetwright_reconcile_total", "Passes, by how they ended.", ["kind", "outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "fleetwright_reconcile_seconds", "One pass.", ["kind"], registry=registry, buckets=_SECONDS
        )
        self.queue_depth = Gauge("fleetwright_queue_depth", "Objects that wait for a pass.", registry=registry)
        self.api_writes = Counter(
            "fleetwright_api_writes_total", "Writes to the API server.", ["verb", "kind"], registry=registry
        )
        self.leader = Gauge("fleetwright_leader", "1 while this process holds the Lease.", registry=registry)

    def count_objects(self, objects: Callable[[], Iterable[Entry]]) -> None:
        """Counts objects by true condition whenever somebody scrapes."""
        self.registry.register(_Objects(objects))


class _Objects(Collector):
    def __init__(self, objects: Callable[[], Iterable[Entry]]) -> None:
        self._objects = objects

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally: Tally[tuple[str, str]] = Tally()
        for entry in self._objects():
            for condition in entry.facts["status"].get("conditions", ()):
                tally[entry.kind, condition["type"]] += condition["status"] == "True"
        family = self._family()
        for (kind, condition), number in sorted(tally.items()):
            family.add_metric([kind, condition], number)
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "fleetwright_objects", "Objects on which a condition is true.", labels=["kind", "condition"]
        )
