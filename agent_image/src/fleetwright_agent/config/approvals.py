"""Which calls of tools wait for a person, and who that may be."""

from enum import StrEnum

from pydantic import Field

from fleetwright_agent.config.base import Part


class Approver(StrEnum):
    CLIENTS = "Clients"
    CALLERS = "Callers"
    """Agents too, but never an agent by its own credential."""


class Approvals(Part):
    """Calls of tools that wait for a person."""

    tools: tuple[str, ...] = ()
    """Names as the model calls them: `<server>__<tool>`, `ask_<peer>`."""
    by: Approver = Approver.CLIENTS
    expiry_seconds: int = Field(default=86_400, gt=0)
    """A task whose approval nobody answers for so long has failed."""
