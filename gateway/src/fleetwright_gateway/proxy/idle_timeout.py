"""The time for which the gateway waits for the next byte of an agent's response. Pure."""

from typing import Final

from fleetwright_api import durations

HEADER: Final = "X-Timeout"
_LONGEST_SECONDS: Final = 86400


def idle_seconds(requested: str, agent_timeout: str | None, default: float) -> float:
    """Return the idle timeout of a response in seconds; 0 means no limit.

    Args:
        requested: The header `X-Timeout` of the caller, or an empty text.
        agent_timeout: `spec.fleet.idleTimeout` of the agent.
        default: The setting of the gateway.

    Raises:
        ValueError: The header is not a whole number of seconds up to 86400. The message is for the caller.
    """
    if not requested:
        return _agent_seconds(agent_timeout) or default
    is_number = requested.isascii() and requested.isdigit() and len(requested) <= len(str(_LONGEST_SECONDS))
    if not is_number or int(requested) > _LONGEST_SECONDS:
        raise ValueError(f"X-Timeout must be a whole number of seconds up to {_LONGEST_SECONDS}; 0 means no limit.")
    return float(requested)


def _agent_seconds(agent_timeout: str | None) -> float | None:
    try:
        return None if agent_timeout is None else durations.seconds(agent_timeout)
    except ValueError:
        return None  # The operator reports the value in a condition of the Agent.
