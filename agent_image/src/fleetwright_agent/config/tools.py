"""What the model is equipped with: skills, MCP servers and peers."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.model import Header


class Skill(Part):
    """A folder mounted at `skills/<name>` below the configuration folder, holding SKILL.md."""

    name: DnsLabel
    description: str = Field(min_length=1, max_length=1024)
    digest: str


class Transport(StrEnum):
    STREAMABLE_HTTP = "StreamableHTTP"
    SSE = "SSE"


class McpServer(Part):
    """Tools of a server. `allow` empty means every tool that `deny` does not name."""

    name: DnsLabel
    url: str
    transport: Transport = Transport.STREAMABLE_HTTP
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """Certificates that are trusted beside the system's."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    require_approval: tuple[str, ...] = ()
    """Tools that run only when a person says yes."""
    pinned: Mapping[str, str] | None = None
    """By tool: the digest of what it promised when it was pinned. What has another, or none, is not used."""


class ToolSearch(Part):
    """Lets the model look for tools where there are many, in place of reading them all in every call."""

    above: int = Field(gt=0)
    """With more tools of servers and plugins than so many it is shown none of them before it has looked."""
    always: tuple[str, ...] = ()
    """Tools that it is shown all the same, by the names that it knows."""


class Peer(Part):
    """An agent that this one may call; its credential is the file `auth/peer.<namespace>.<name>`."""

    name: DnsLabel
    namespace: DnsLabel
    url: str
    """The address without a path; the card lies at its well-known place below it."""
    description: str = ""
