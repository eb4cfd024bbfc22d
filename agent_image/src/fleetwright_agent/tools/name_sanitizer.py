"""The names of tools in model requests. This module does not import the MCP library."""

import hashlib
import re
from typing import Final

_LONGEST: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_LETTER: Final = re.compile(r"[A-Za-z]")
_PREFIX: Final = "tool_"


def offered_pattern(pattern: str) -> str:
    """Return a pattern with `*` for the offered names of the tools whose names it matches."""
    return pattern if _LETTER.match(pattern) or pattern.startswith("*") else f"{_PREFIX}{pattern}"


def offered_name(name: str) -> str:
    """Return a name that model providers accept. A changed name ends with a hash, so that names stay distinct.

    Moonshot requires a letter at the beginning, and Google a letter or an underscore.
    """
    plain = _FOREIGN.sub("_", name)
    if plain == name and len(name) <= _LONGEST and _LETTER.match(name):
        return name
    plain = plain if _LETTER.match(plain) else f"{_PREFIX}{plain}"
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST - len(mark) - 1]}_{mark}"
