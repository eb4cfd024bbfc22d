"""The configuration of approvals: which tool calls wait for a person, and who may approve them."""

from enum import StrEnum

from pydantic import Field

from fleetwright_agent.config.base import Part


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
    expiry_seconds: int = Field(default=86_400, gt=0)
    """A task whose approval is not answered within this time fails."""

    @property
    def deciders(self) -> str:
        """The deciders that a question names for callers; empty if callers of a task may decide."""
        return self.by.value if self.by is Approver.REVIEWERS else ""
