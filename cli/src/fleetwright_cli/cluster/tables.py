"""Tables as `kubectl get` shows them, and the timestamps in them. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_LEAST: Final = 2
"""The smallest number that is shown with a unit, so that 90 seconds are `90s` and not `1m`."""


def render(table: Sequence[Sequence[str]], *, widths: Sequence[int] = ()) -> str:
    """Return the rows as text. Args: `widths` are the smallest widths of the columns."""
    wide = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    wide = [max(each, least) for each, least in zip(wide, widths or wide, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip() for row in table)
    return "\n".join(lines)


def widths_of(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in table) for column in range(len(table[0]))]


def visible(text: str) -> str:
    """Return a text in one line, in which characters that are not printable are replaced."""
    return "".join(each if each.isprintable() else " " if each in "\n\t" else "\ufffd" for each in text)


def age(created: str, now: datetime) -> str:
    """Return the time since the creation with one unit, such as `90s` or `5m`."""
    then = _parse(created)
    return "-" if then is None else _duration(now.timestamp() - then)


def time_left(end: str, now: datetime) -> str:
    """Return the time until the end with one unit; `0s` if it has passed."""
    then = _parse(end)
    return "-" if then is None else _duration(then - now.timestamp())


def parse_timestamp(text: str) -> int:
    """Return the seconds since the epoch of a timestamp of the API in whole seconds, such as `2026-03-01T12:00:00Z`.

    Raises: ValueError: The text is not such a timestamp.
    """
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def _parse(moment: str) -> int | None:
    try:
        return parse_timestamp(moment)
    except ValueError:
        return None


def _duration(total: float) -> str:
    seconds = max(0, int(total))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= _LEAST * size), (1, "s"))
    return f"{seconds // size}{unit}"
