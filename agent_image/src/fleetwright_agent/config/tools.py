"""The configuration of tools: skills, MCP servers, peers and plugins."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.model import Header


class DeclaredSkill(Part):
    """A skill that the card of the agent shows, and for which no files are mounted."""

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)


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
    proxy_url: str | None = Field(default=None, max_length=2048)
    """The HTTP proxy for all requests to the server. The agent then connects to the proxy only."""
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
    """An agent that this one may call. The file `auth/peer.<namespace>.<name>` contains the credential for it.

    A peer behind the gateway is called with the token of the pod for the gateway instead.
    """

    name: DnsLabel
    namespace: DnsLabel
    url: str
    """The address of the peer. It has a path only if the peer is behind the gateway. The agent card is below this
    address, at the well-known path of agent cards.
    """
    description: str = ""
    through_gateway: bool = False
    """True if `url` is the address of the peer at the gateway, which wakes the peer if it sleeps."""


class PluginConfig(Part):
    """An entry point of the group `fleetwright.plugins`, in the agent's image."""

    name: DnsLabel
    config: Mapping[str, Any] = Field(default_factory=dict)
    """The argument of the plugin's factory; the plugin defines its schema."""
