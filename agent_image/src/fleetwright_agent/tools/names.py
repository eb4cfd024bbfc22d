"""What a tool is called towards a model. Apart from `mcp_listing`, which imports the protocol's library."""

import hashlib
import re
from typing import Final

_LONGEST: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


def offered_name(name: str) -> str:
    """The name as a provider accepts it; one that had to change ends with a hash, so that two stay apart."""
    plain = _FOREIGN.sub("_", name)
    if plain == name and len(name) <= _LONGEST:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST - len(mark) - 1]}_{mark}"
