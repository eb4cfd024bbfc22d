"""Decides which turns may use memory.

Turns of agents may not, because an agent acts for many clients. A client may exclude a turn in the message's metadata.
"""

from fleetwright_a2a.extensions import leaves_no_memory
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import TurnRequest


def is_remembered(request: TurnRequest) -> bool:
    """Return True if the turn may store memories and read earlier memories."""
    return is_client(request.owner) and not leaves_no_memory(request.metadata)
