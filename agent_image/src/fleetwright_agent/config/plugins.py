"""The configuration of plugins."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Part


class PluginConfig(Part):
    """An entry point of the group `fleetwright.plugins`, in the agent's image."""

    name: DnsLabel
    config: Mapping[str, Any] = Field(default_factory=dict)
    """The argument of the plugin's factory; the plugin defines its schema."""
