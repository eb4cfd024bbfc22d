"""MCP servers that start. An agent that does not reach such a server yet is not degraded. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.conditions import AVAILABLE, PROGRESS

CONNECT_SECONDS: Final = 60
"""The time in which agents connect to a server that has become available."""


def has_started(status: Mapping[str, Any], *, now: int) -> bool:
    """Return whether agents had enough time to connect to the server, or it cannot start.

    Args: `status` is that of the McpServer.
    """
    return connection_seconds_left(status, now=now) == 0 and not _is_starting(_available(status))


def connection_seconds_left(status: Mapping[str, Any], *, now: int) -> int:
    """Return the seconds that agents still have to connect to an available server; 0 if the time is over."""
    available = _available(status)
    if available.get("status") != "True":
        return 0
    return max(0, parse_timestamp(available["lastTransitionTime"]) + CONNECT_SECONDS - now)


def _is_starting(available: Mapping[str, Any]) -> bool:
    return available.get("status") != "True" and available.get("reason", "Pending") in PROGRESS


def _available(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next((each for each in status.get("conditions", ()) if each["type"] == AVAILABLE), {})
    return found
