"""The names of tools in model requests. This module does not import the MCP library."""

import hashlib
import re
from typing import Final

_LONGEST: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


def offered_name(name: str) -> str:
    """Return a name that model providers accept. A changed name ends with a hash, so that names stay distinct."""
    plain = _FOREIGN.sub("_", name)
    if plain == name and len(name) <= _LONGEST:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST - len(mark) - 1]}_{mark}"
