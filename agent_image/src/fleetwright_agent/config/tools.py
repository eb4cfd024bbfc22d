"""The configuration of tools: skills, MCP servers and peers."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.model import Header


class Skill(Part):
    """A folder mounted at `skills/<name>` below the configuration folder, containing SKILL.md."""

    name: DnsLabel
    description: str = Field(min_length=1, max_length=1024)
    digest: str


class Transport(StrEnum):
    STREAMABLE_HTTP = "StreamableHTTP"
    SSE = "SSE"


class McpServer(Part):
    """The tools of a server. An empty `allow` means every tool that `deny` does not name."""

    name: DnsLabel
    url: str
    transport: Transport = Transport.STREAMABLE_HTTP
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """CA certificates that are trusted in addition to the system's certificates."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    require_approval: tuple[str, ...] = ()
    """Tools that run only after a person approves."""
    pinned: Mapping[str, str] | None = None
    """Digest of each tool when it was pinned. A tool with another digest, or with none, is not used."""


class ToolSearch(Part):
    """Lets the model search for tools if there are many, instead of sending all of them with every call."""

    above: int = Field(gt=0)
    """If servers and plugins have more tools than this, the model sees these tools only after a search."""
    always: tuple[str, ...] = ()
    """Tools that the model sees without a search, named as the model sees them."""


class Peer(Part):
    """An agent that this one may call. The file `auth/peer.<namespace>.<name>` contains the credential for it."""

    name: DnsLabel
    namespace: DnsLabel
    url: str
    """The address without a path. The agent card is below this address, at the well-known path of agent cards."""
    description: str = ""
