"""All Prometheus metrics of the operator. Names and labels are an API: dashboards and alerts depend on them.

No label holds the name of an object, because the number of objects is unbounded. The expiry of client tokens is the
exception, because an alert must name the client. The expiry is read from the cache at each scrape, so its series ends
with its object.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.observe.installation import read_installation

_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)


class OperatorMetrics:
    """The metrics of one registry: one registry per process in production, one per test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.reconciles = Counter(
            "fleetwright_reconcile_total", "Reconciles, by outcome.", ["kind", "outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "fleetwright_reconcile_seconds",
            "The duration of one reconcile.",
            ["kind"],
            registry=registry,
            buckets=_SECONDS,
        )
        self.queue_depth = Gauge("fleetwright_queue_depth", "Objects that wait for a reconcile.", registry=registry)
        self.api_writes = Counter(
            "fleetwright_api_writes_total", "Writes to the API server.", ["verb", "kind"], registry=registry
        )
        self.delayed_writes = Counter(
            "fleetwright_delayed_writes_total",
            "Writes that were delayed because they repeat although nothing has changed.",
            ["verb", "kind"],
            registry=registry,
        )
        self.leader = Gauge("fleetwright_leader", "1 while this process holds the Lease.", registry=registry)
        self.decisions = Counter(
            "fleetwright_approval_deliveries_total",
            "Decisions of persons that were sent to agents, by the agent's answer.",
            ["answer"],
            registry=registry,
        )
        self._approvals: Callable[[], Iterable[CachedObject]] = tuple
        self._objects: Callable[[], Iterable[CachedObject]] = tuple
        self._installation = ""
        self._secrets: Callable[[], Iterable[CachedObject]] = tuple
        registry.register(_Approvals(lambda: self._approvals()))
        registry.register(_Objects(lambda: self._objects(), installation=lambda: self._installation))
        registry.register(_Expiries(lambda: self._secrets()))

    def count_write(self, verb: str, kind: str) -> None:
        self.api_writes.labels(verb=verb, kind=kind).inc()

    def count_delayed_write(self, verb: str, kind: str) -> None:
        self.delayed_writes.labels(verb=verb, kind=kind).inc()

    def count_decision(self, answer: str) -> None:
        self.decisions.labels(answer=answer).inc()

    def count_approvals(self, approvals: Callable[[], Iterable[CachedObject]]) -> None:
        """Set the function that returns the Approvals. Each scrape counts them by phase.

        A process that becomes the leader again sets a new function.
        """
        self._approvals = approvals

    def count_objects(self, objects: Callable[[], Iterable[CachedObject]], *, installation: str) -> None:
        """Set the function that returns the objects to count. Each scrape counts them by their true conditions.

        Those that another installation than `installation` manages are counted apart.

        A process that becomes the leader again sets a new function.
        """
        self._objects = objects
        self._installation = installation

    def export_expiries(self, secrets: Callable[[], Iterable[CachedObject]]) -> None:
        """Set the function that returns the Secrets of client tokens. Each scrape reports when these tokens expire.

        A process that becomes the leader again sets a new function.
        """
        self._secrets = secrets


class _Expiries(Collector):
    def __init__(self, secrets: Callable[[], Iterable[CachedObject]]) -> None:
        self._secrets = secrets

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = self._family()
        for secret in self._secrets():
            agent = secret.labels.get(names.AGENT_LABEL, "")
            client = secret.name.removeprefix(names.agent_client(agent, ""))
            with suppress(KeyError, ValueError):  # not a client's token, or edited; the next reconcile repairs it
                end = parse_timestamp(secret.annotations[names.EXPIRES_ANNOTATION])
                family.add_metric([secret.namespace, agent, client], end)
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "fleetwright_credential_expiry_timestamp_seconds",
            "When a client's token expires unless it is rotated before.",
            labels=["namespace", "agent", "client"],
        )


class _Approvals(Collector):
    """Counts Approvals by phase, and reports since when the oldest one waits for a decision."""

    def __init__(self, approvals: Callable[[], Iterable[CachedObject]]) -> None:
        self._approvals = approvals

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from self._families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        phases: Tally[str] = Tally()
        waiting: list[int] = []
        for entry in self._approvals():
            phase = entry.projection["status"].get("phase", "Pending")
            phases[phase] += 1
            if phase == "Pending":
                with suppress(ValueError):
                    waiting.append(parse_timestamp(entry.created))
        by_phase, oldest = self._families()
        for phase, number in sorted(phases.items()):
            by_phase.add_metric([phase], number)
        if waiting:
            oldest.add_metric([], min(waiting))
        yield by_phase
        yield oldest

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("fleetwright_approvals", "Approvals, by phase.", labels=["phase"]),
            GaugeMetricFamily(
                "fleetwright_approval_oldest_pending_timestamp_seconds",
                "When the oldest Approval that waits for a decision was created.",
                labels=[],
            ),
        )


class _Objects(Collector):
    def __init__(self, objects: Callable[[], Iterable[CachedObject]], *, installation: Callable[[], str]) -> None:
        self._objects = objects
        self._installation = installation

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from self._families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally: Tally[tuple[str, str]] = Tally()
        elsewhere: Tally[tuple[str, str]] = Tally()
        for entry in self._objects():
            installation = read_installation(entry)
            if installation not in {"", self._installation()}:
                elsewhere[entry.kind, installation] += 1
                continue
            for condition in entry.projection["status"].get("conditions", ()):
                tally[entry.kind, condition["type"]] += condition["status"] == "True"
        by_condition, by_installation = self._families()
        for (kind, condition), number in sorted(tally.items()):
            by_condition.add_metric([kind, condition], number)
        for (kind, installation), number in sorted(elsewhere.items()):
            by_installation.add_metric([kind, installation], number)
        yield by_condition
        yield by_installation

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "fleetwright_objects", "Objects on which a condition is true.", labels=["kind", "condition"]
            ),
            GaugeMetricFamily(
                "fleetwright_objects_managed_elsewhere",
                "Objects in served namespaces that another installation manages.",
                labels=["kind", "installation"],
            ),
        )
