"""Parses untrusted JSON into values that can be encoded again.

JSON can contain an escaped lone surrogate, which UTF-8 cannot encode. A status with a lone surrogate could not be
written. This module replaces lone surrogates by U+FFFD, so that the parsed text equals the text that is stored.
"""

import json
import re
from typing import Any

HALF = re.compile("[\ud800-\udfff]")
"""Python joins surrogate pairs to one character, so only lone surrogates match."""


def read_json(text: str | bytes) -> Any:
    """Parse JSON and replace lone surrogates.

    Raises:
        ValueError: The text is not JSON, or it is nested too deeply.
    """
    try:
        return _whole(json.loads(text))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_whole(key): _whole(below) for key, below in value.items()}
    return [_whole(below) for below in value] if isinstance(value, list) else value
