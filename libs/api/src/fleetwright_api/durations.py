"""Durations of the API: a whole number and one unit, such as `90s`, `5m` or `2h`."""

import re

PATTERN = re.compile(r"^([1-9][0-9]{0,4})(s|m|h)$")
_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> int:
    """Return the number of seconds of a duration.

    Raises:
        ValueError: The text is not a duration; the message describes the format.
    """
    match = PATTERN.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a whole number and a unit, such as 90s, 5m or 2h")
    return int(match[1]) * _UNITS[match[2]]
