"""The port of an agent's address. An endpoint opens, reopens after a loss, and closes."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """Where to send requests, and the token for them."""

    url: str
    """The address without the path of the card."""
    token: str = field(repr=False)


def build_agent_key(address: str, client: str | None) -> str:
    """Return the key of an agent as one of its clients calls it. Each client has conversations of its own.

    Args:
        client: None for the default client, whose key is the address alone, as in indexes of earlier versions.
    """
    return address if client in {None, "default"} else f"{address}#{client}"


class AgentEndpoint(Protocol):
    @property
    def key(self) -> str:
        """The stable name of the agent, and of a client that the user has chosen, in the local index of conversations.

        It has no port of a tunnel.
        """
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
