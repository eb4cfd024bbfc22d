"""JSON that others wrote, as text that can be written again.

JSON can escape half a surrogate pair, which no encoding has: whoever kept one could not write a status with it. It
becomes U+FFFD here, so that what was read and what is stored are the same at each pass.
"""

import json
import re
from typing import Any

HALF = re.compile("[\ud800-\udfff]")
"""Pairs are one letter in a Python text."""


def read_json(text: str | bytes) -> Any:
    """The value.

    Raises:
        ValueError: It is no JSON, or its parts lie too deep in each other.
    """
    try:
        return _whole(json.loads(text))
    except RecursionError:
        raise ValueError("its parts lie too deep in each other") from None


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_whole(key): _whole(below) for key, below in value.items()}
    return [_whole(below) for below in value] if isinstance(value, list) else value
