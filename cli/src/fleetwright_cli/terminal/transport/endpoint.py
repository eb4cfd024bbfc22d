"""The port of an agent's address. An endpoint opens, reopens after a loss, and closes."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """Where to send requests, and the token for them."""

    url: str
    """The address without the path of the card."""
    token: str = field(repr=False)


class AgentEndpoint(Protocol):
    @property
    def key(self) -> str:
        """The stable name of the agent for the local index of conversations. It contains no port of a tunnel."""
        ...

    @property
    def title(self) -> str:
        """The name of the agent for people."""
        ...

    async def open(self) -> AgentTarget:
        """Return the address. The endpoint opens a tunnel if it needs one.

        Raises: TransportError.
        """
        ...

    async def renew(self) -> None:
        """Prepare for another `open` after a lost connection: a dead tunnel is closed."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FixedEndpoint:
    """An address that the user has given."""

    target: AgentTarget
    name: str = ""

    @property
    def key(self) -> str:
        return f"url:{self.target.url}"

    @property
    def title(self) -> str:
        return self.name or self.target.url

    async def open(self) -> AgentTarget:
        return self.target

    async def renew(self) -> None:
        """A fixed address needs no renewal."""

    async def close(self) -> None:
        """A fixed address has nothing to close."""
