"""Decides which turns may use memory. An agent that calls may serve several clients, whose data must not mix."""

from fleetwright_a2a.extensions import leaves_no_memory
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import TurnRequest


def is_remembered(request: TurnRequest) -> bool:
    """Return True if the turn may leave memories and see earlier ones."""
    return is_client(request.owner) and not leaves_no_memory(request.metadata)
