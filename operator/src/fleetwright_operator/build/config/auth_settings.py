"""An agent's settings for its callers: token lifetime, how tokens are sent, protocol versions and extensions."""

from contextlib import suppress

from fleetwright_api import durations
from fleetwright_api.spec.a2a import DIALECTS
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.callers import AuthSpec
from fleetwright_operator.credentials.rotation import SHORTEST, Rotation
from fleetwright_operator.settings import Settings


def token_rotation(spec: AgentSpec, settings: Settings) -> Rotation:
    """Return the token rotation. The installation provides the defaults, with an overlap of at most the lifetime.

    An invalid value also falls back to the installation's value, so that callers keep their tokens while the checks
    report the error.
    """
    usual = settings.token_rotation
    with suppress(ValueError):
        return declared_rotation(spec.auth, usual)
    return usual


def declared_rotation(auth: AuthSpec, usual: Rotation) -> Rotation:
    """Return the declared rotation. Raises ValueError with the field and the remedy."""
    ttl = _seconds("tokenTTL", auth.token_ttl, usual.ttl, least=SHORTEST.ttl)
    overlap = _seconds("overlap", auth.overlap, min(usual.overlap, ttl), least=SHORTEST.overlap)
    if overlap > ttl:
        raise ValueError("spec.auth.overlap must not be longer than spec.auth.tokenTTL; shorten it, or raise tokenTTL")
    return Rotation(ttl=ttl, overlap=overlap)


def _seconds(field: str, text: str | None, default: int, *, least: int) -> int:
    if text is None:
        return default
    try:
        seconds = durations.seconds(text)
    except ValueError as error:
        raise ValueError(f"spec.auth.{field}: {error}") from None
    if seconds < least:
        raise ValueError(f"spec.auth.{field} is {text} and must be at least {least}s")
    return seconds


def exposes_tool_calls(spec: AgentSpec) -> bool:
    """Return whether callers see which tools are called."""
    return spec.a2a.extensions.tool_calls is not False


def exposes_model_fallbacks(spec: AgentSpec) -> bool:
    """Return whether callers see which model replaced which."""
    return bool(spec.a2a.extensions.model_fallbacks and spec.model.fallbacks)


def hides_skills_from_public(spec: AgentSpec) -> bool:
    """Return whether the public card omits the skills; authenticated callers read them on the extended card."""
    return spec.a2a.public_card == "Minimal"


def dialects(spec: AgentSpec) -> list[str]:
    """Return the protocol versions that the agent supports, newest first; by default all."""
    return [version for version in DIALECTS if version in spec.a2a.dialects]
