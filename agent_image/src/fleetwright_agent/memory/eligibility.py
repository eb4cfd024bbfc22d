"""Decides which turns may use memory.

Turns of agents may not, because an agent acts for many clients. A client may exclude a turn in the message's metadata.
The role of a client may forbid reading memory, writing it, or both.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_a2a.extensions import leaves_no_memory
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction


def is_remembered(request: TurnRequest) -> bool:
    """Return True if the turn may use memory, apart from the role of its caller."""
    return is_client(request.owner) and not leaves_no_memory(request.metadata)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Combines the eligibility of a turn with the role of its caller."""

    actions_of: Callable[[str], frozenset[CallerAction]]
    """Returns the actions that the role of a caller allows."""

    def allows_reading(self, owner: str) -> bool:
        return CallerAction.READ_MEMORY in self.actions_of(owner)

    def may_read(self, request: TurnRequest) -> bool:
        """Return True if earlier memories may reach the prompt of the turn."""
        return is_remembered(request) and self.allows_reading(request.owner)

    def may_write(self, request: TurnRequest) -> bool:
        """Return True if the turn may leave memories for later conversations."""
        return is_remembered(request) and CallerAction.WRITE_MEMORY in self.actions_of(request.owner)
