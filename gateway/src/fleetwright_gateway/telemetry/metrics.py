"""All Prometheus metrics of the gateway. Names and labels are an API: dashboards and alerts depend on them.

No label holds the name of an agent or of a caller, because their number is unbounded.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WAKE_SECONDS = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 10, 20, 30)


class GatewayMetrics:
    """The metrics of one registry: one registry per process in production, one per test."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "fleetwright_gateway_requests_total", "Answered requests.", ["route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "fleetwright_gateway_request_seconds",
            "The time until the first byte of the answer of an agent.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.authentication_failures = Counter(
            "fleetwright_gateway_authentication_failures_total",
            "Requests whose caller is not known, by reason.",
            ["reason"],
            registry=registry,
        )
        self.proxy_failures = Counter(
            "fleetwright_gateway_proxy_failures_total",
            "Requests that an agent did not answer completely, by reason.",
            ["reason"],
            registry=registry,
        )
        self.open_requests = Gauge(
            "fleetwright_gateway_open_requests", "Requests and streams that are being forwarded.", registry=registry
        )
        self.held_requests = Gauge(
            "fleetwright_gateway_held_requests", "Requests that wait for an agent to wake.", registry=registry
        )
        self.wake_seconds = Histogram(
            "fleetwright_gateway_wake_seconds",
            "The time from the request to wake an agent until its pod is ready.",
            registry=registry,
            buckets=_WAKE_SECONDS,
        )
        self.wakes = Counter(
            "fleetwright_gateway_wakes_total", "Requests to wake an agent, by outcome.", ["outcome"], registry=registry
        )
        self.agents = Gauge("fleetwright_gateway_agents", "Agents in the cache.", registry=registry)
        # `increase()` does not see the first event of a new series.
        for outcome in ("awake", "failed"):
            self.wakes.labels(outcome)
        self.requests.labels("agents", "402")
