"""The gateway of the installation: its address in `agent.json`, and the schema of `auth/gateway.json`."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fleetwright_agent.config.base import Part


class Gateway(Part):
    """The way to the agents of the same team."""

    url: str = Field(pattern=r"^https?://[^/?#]+$")


class RevokedCaller(Part):
    """A caller whose tokens are refused if they were issued at `not_before` or earlier."""

    caller: str = Field(min_length=1)
    """The uid of the caller's Agent object."""
    not_before: int
    """Seconds since the epoch."""


class GatewayKeys(Part):
    """The tokens of the gateway that the agent accepts. The file is read again when it changes."""

    version: Literal[1]
    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    """The uid of this Agent."""
    keys: tuple[Mapping[str, Any], ...] = Field(min_length=1, max_length=4)
    """Public keys as JWKs (RFC 7517)."""
    revoked: tuple[RevokedCaller, ...] = ()


def parse_agent_uid(raw: bytes) -> str:
    """Return the uid of this Agent from `gateway.json`, without importing the libraries that verify tokens."""
    return GatewayKeys.model_validate_json(raw).audience
