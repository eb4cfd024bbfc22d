"""The place of an Agent in a team, and when it sleeps."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepSpec:
    after_idle: str
