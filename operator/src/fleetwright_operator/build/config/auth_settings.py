"""An agent's settings for its callers: token lifetime, how tokens are sent, protocol versions and extensions."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fleetwright_api import durations
from fleetwright_api.call_authorization import Agent
from fleetwright_operator.credentials.rotation import SHORTEST, Rotation
from fleetwright_operator.settings import Settings

DIALECTS = ("1.0", "0.3", "0.1")
"""Versions of the protocol, newest first."""


def token_rotation(agent: Agent, settings: Settings) -> Rotation:
    """Return the token rotation. The installation provides the defaults, with an overlap of at most the lifetime.

    An invalid value also falls back to the installation's, so callers keep their tokens while the checks report the
    error.
    """
    usual = settings.token_rotation
    with suppress(ValueError):
        return declared_rotation(agent["spec"].get("auth", {}), usual)
    return usual


def declared_rotation(auth: dict[str, Any], usual: Rotation) -> Rotation:
    """Return the declared rotation. Raises ValueError with the field and the remedy."""
    ttl = _seconds(auth, "tokenTTL", usual.ttl, least=SHORTEST.ttl)
    overlap = _seconds(auth, "overlap", min(usual.overlap, ttl), least=SHORTEST.overlap)
    if overlap > ttl:
        raise ValueError("spec.auth.overlap must not be longer than spec.auth.tokenTTL; shorten it, or raise tokenTTL")
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
    """Return whether clients may also send their token as an API key."""
    return bool(agent["spec"].get("auth", {}).get("apiKey", False))


def exposes_tool_calls(spec: Mapping[str, Any]) -> bool:
    """Return whether callers see which tools are called."""
    return bool(spec.get("a2a", {}).get("extensions", {}).get("toolCalls", True))


def exposes_model_fallbacks(spec: Mapping[str, Any]) -> bool:
    """Return whether callers see which model replaced which."""
    told = spec.get("a2a", {}).get("extensions", {}).get("modelFallbacks", False)
    return bool(told and spec.get("model", {}).get("fallbacks"))


def hides_skills_from_public(agent: Agent) -> bool:
    """Return whether the public card omits the skills; authenticated callers read them on the extended card."""
    return bool(agent["spec"].get("a2a", {}).get("publicCard") == "Minimal")


def declared_skills(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the declared skills, besides the mounted ones."""
    return tuple(spec.get("a2a", {}).get("skills", ()))


def media_type(skill: Mapping[str, Any]) -> str:
    """Return the media type of a declared skill's output data."""
    return str(skill.get("outputMediaType", "application/json"))


def dialects(agent: Agent) -> list[str]:
    """Return the protocol versions that the agent supports, newest first; by default all."""
    wanted = agent["spec"].get("a2a", {}).get("dialects", DIALECTS)
    return [version for version in DIALECTS if version in wanted]
