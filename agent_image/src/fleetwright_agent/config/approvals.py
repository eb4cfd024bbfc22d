"""The configuration of approvals: which tool calls wait for a person, and who may approve them."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, field_validator

from fleetwright_agent.config.base import Part
from fleetwright_agent.config.callers import is_client, owner_key

_CALLER: Final = r"^(client:[a-z0-9]([-a-z0-9]*[a-z0-9])?|user:[ -)+-~]+)$"
"""The exact name of a client or a person."""


class Approver(StrEnum):
    CLIENTS = "Clients"
    CALLERS = "Callers"
    """Clients and agents, except this agent itself."""
    REVIEWERS = "Reviewers"
    """Only people who decide about `Approval` objects. Tasks of every caller may wait for them."""


class Approvals(Part):
    """Tool calls that wait for a person."""

    tools: tuple[str, ...] = ()
    """Names as the model sees them: `<server>__<tool>`, `ask_<peer>`."""
    by: Approver = Approver.CLIENTS
    bypass_callers: tuple[Annotated[str, Field(max_length=512, pattern=_CALLER)], ...] = Field(
        default=(), max_length=32
    )
    """Clients and persons whose own tasks need no approval.

    The names of persons are plain in the file, and owner keys after reading.
    """
    expiry_seconds: int = Field(default=86_400, gt=0)
    """A task whose approval is not answered within this time fails."""

    @field_validator("bypass_callers")
    @classmethod
    def _owner_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(owner_key, value))

    def bypasses(self, owner: str) -> bool:
        """Return True if the tasks of this owner need no approval. A person who acts through an agent needs it."""
        return is_client(owner) and owner in self.bypass_callers

    @property
    def deciders(self) -> str:
        """The deciders that a question names for callers; empty if callers of a task may decide."""
        return self.by.value if self.by is Approver.REVIEWERS else ""
