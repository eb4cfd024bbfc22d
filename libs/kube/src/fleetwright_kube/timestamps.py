"""Converts timestamps between the format of the API, `2026-03-01T12:00:00Z`, and whole seconds since the epoch."""

from datetime import UTC, datetime
from functools import lru_cache

_FORM = "%Y-%m-%dT%H:%M:%SZ"
_FINE = "%Y-%m-%dT%H:%M:%S.%fZ"


def time_of_day() -> datetime:
    return datetime.now(UTC)


@lru_cache(maxsize=4096)
def parse_timestamp(text: str) -> int:
    """Return seconds since the epoch.

    Raises:
        ValueError: The text is not a timestamp.
    """
    return int(datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp())


def format_timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_FORM)


def format_datetime(when: datetime) -> str:
    """Format a time for a condition, in whole seconds."""
    return when.strftime(_FORM)


def format_micro_time(when: datetime) -> str:
    """Format a time for a Lease, in microseconds (`MicroTime`)."""
    return when.strftime(_FINE)
