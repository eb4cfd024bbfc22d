"""The configuration of traces."""

from pydantic import Field

from fleetwright_agent.config.base import Part
from fleetwright_agent.config.model import Header


class Telemetry(Part):
    """A collector that accepts OTLP over HTTP."""

    endpoint: str = Field(min_length=1, max_length=2048)
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """CA certificates that are trusted in addition to the system's certificates. A changed file is read again."""
    sample_percent: int = Field(default=100, ge=1, le=100)
    """The share of tasks that are traced if the caller's request has no trace context."""
