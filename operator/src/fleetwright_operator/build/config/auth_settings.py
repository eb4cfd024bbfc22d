"""On which terms an agent deals with callers: how long tokens live, how they are sent, what is spoken and told."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fleetwright_operator.api import durations
from fleetwright_operator.api.call_authorization import Agent
from fleetwright_operator.credentials.rotation import SHORTEST, Rotation
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


def tells_tool_calls(spec: Mapping[str, Any]) -> bool:
    """Whether callers are told which tools are called."""
    return bool(spec.get("a2a", {}).get("extensions", {}).get("toolCalls", True))


def tells_model_fallbacks(spec: Mapping[str, Any]) -> bool:
    """Whether callers are told which model took over from which."""
    told = spec.get("a2a", {}).get("extensions", {}).get("modelFallbacks", False)
    return bool(told and spec.get("model", {}).get("fallbacks"))


def keeps_skills_from_strangers(agent: Agent) -> bool:
    """Whether the card that everybody reads names no skills; callers read them on the extended one."""
    return bool(agent["spec"].get("a2a", {}).get("publicCard") == "Minimal")


def declared_skills(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """What the agent says that it can do, beside the skills that are mounted."""
    return tuple(spec.get("a2a", {}).get("skills", ()))


def media_type(skill: Mapping[str, Any]) -> str:
    """Of the data that a declared skill answers with."""
    return str(skill.get("outputMediaType", "application/json"))


def dialects(agent: Agent) -> list[str]:
    """The versions of the protocol that the agent speaks, newest first; all of them where nothing is said."""
    wanted = agent["spec"].get("a2a", {}).get("dialects", DIALECTS)
    return [version for version in DIALECTS if version in wanted]
