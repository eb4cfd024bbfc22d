"""On which terms an agent lets callers in: how long their tokens live, how they may be sent, and what is spoken."""

from contextlib import suppress
from typing import Any

from fleetwright_operator import durations
from fleetwright_operator.edges import Agent
from fleetwright_operator.rotation import SHORTEST, Rotation
from fleetwright_operator.settings import Settings

DIALECTS = ("1.0", "0.3", "0.1")
"""Versions of the protocol, newest first."""


def token_rotation(agent: Agent, settings: Settings) -> Rotation:
    """An overlap that is not said is the installation's, and never longer than the life it overlaps.

    What cannot be read is the installation's too: callers keep their tokens while checks.py says what is wrong.
    """
    usual = settings.token_rotation
    with suppress(ValueError):
        return declared_rotation(agent["spec"].get("auth", {}), usual)
    return usual


def declared_rotation(auth: dict[str, Any], usual: Rotation) -> Rotation:
    """Raises: ValueError, with the field and the remedy."""
    ttl = _seconds(auth, "tokenTTL", usual.ttl, least=SHORTEST.ttl)
    overlap = _seconds(auth, "overlap", min(usual.overlap, ttl), least=SHORTEST.overlap)
    if overlap > ttl:
        raise ValueError("spec.auth.overlap must not be longer than tokenTTL: shorten it, or give tokens a longer life")
    return Rotation(ttl=ttl, overlap=overlap)


def _seconds(auth: dict[str, Any], field: str, default: int, *, least: int) -> int:
    if field not in auth:
        return default
    try:
        seconds = durations.seconds(auth[field])
    except ValueError as error:
        raise ValueError(f"spec.auth.{field}: {error}") from None
    if seconds < least:
        raise ValueError(f"spec.auth.{field} is {auth[field]} and must be at least {least}s")
    return seconds


def takes_api_keys(agent: Agent) -> bool:
    """Whether clients may send their token as an API key too."""
    return bool(agent["spec"].get("auth", {}).get("apiKey", False))


def dialects(agent: Agent) -> list[str]:
    """The versions of the protocol that the agent speaks, newest first; all of them where nothing is said."""
    wanted = agent["spec"].get("a2a", {}).get("dialects", DIALECTS)
    return [version for version in DIALECTS if version in wanted]
