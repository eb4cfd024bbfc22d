"""The place of an Agent in a team, when it sleeps, and what it does while it is idle."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import one_of
from fleetwright_api.spec.references import ObjectReference

NO_REACH = "None"
DIRECT = "Direct"
LINEAGE = "Lineage"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Without a parent, the agent is a root of its namespace."""

    parent: ObjectReference | None = None
    reach: str = one_of(NO_REACH, DIRECT, LINEAGE, default=NO_REACH)
    suspend_team: bool = False
    cascade: bool = False
    """True if deleting this agent deletes its children."""
    forwarded_to: ObjectReference | None = None
    """The Agent that replaced this one. The gateway redirects callers to it."""
    idle_timeout: str | None = None
    """How long the gateway waits for the next byte of a response; None means the setting of the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepSpec:
    after_idle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePromptSpec:
    """The message that the agent sends to itself when it has had nothing to do for a while."""

    text: str
    every: str = "10m"
