"""What MCP servers offered when they were last asked: known after the first handshake, and kept when one goes away."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.config import McpServer

_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Offer:
    tools: int
    """How many the agent may use."""
    missing: tuple[str, ...] = ()
    """Names that are allowed, or need approval, and are not offered: a misspelt one, or a server that has changed."""
    refused: tuple[str, ...] = ()
    """Names of tools that are not used, because they are not what was pinned."""


class Offers:
    def __init__(self) -> None:
        self._by_server: dict[str, Offer] = {}

    def put(self, server: McpServer, *, offered: Collection[str], usable: int, refused: Collection[str] = ()) -> None:
        missing = sorted({*server.allow, *server.require_approval} - {*offered} - {*server.deny})
        self._by_server[server.name] = Offer(usable, tuple(missing[:_MOST]), tuple(sorted(refused)[:_MOST]))

    def of(self, server: str) -> Offer | None:
        return self._by_server.get(server)
