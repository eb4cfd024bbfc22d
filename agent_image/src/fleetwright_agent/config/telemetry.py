"""Where traces of the agent's tasks go."""

from pydantic import Field

from fleetwright_agent.config.base import Part
from fleetwright_agent.config.model import Header


class Telemetry(Part):
    """A collector that takes OTLP over HTTP."""

    endpoint: str = Field(min_length=1, max_length=2048)
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """Certificates of authorities that are trusted beside the usual ones; read again when it changes."""
    sample_percent: int = Field(default=100, ge=1, le=100)
    """Of the tasks that no caller traces already."""
