"""The paths of the proxy: `/agents/<namespace>/<name>` and everything below. Pure."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

_PREFIX: Final = b"/agents/"
_TARGET: Final = re.compile(rb"[!-~]*")
CARD_PATHS: Final = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})


@dataclass(frozen=True, slots=True)
class AgentPath:
    namespace: str
    name: str
    rest: str
    """The path at the agent, exactly as the caller encoded it; it begins with a slash."""

    @property
    def is_card(self) -> bool:
        return unquote(self.rest) in CARD_PATHS


def is_proxied(raw_path: bytes) -> bool:
    """Return whether a path belongs to the proxy. With one segment after `/agents/`, it is a lookup in the registry."""
    return raw_path.startswith(_PREFIX) and b"/" in raw_path[len(_PREFIX) :]


def agent_path(raw_path: bytes) -> AgentPath | None:
    """Split a path of the proxy; None if it names no agent, or if its segments would lead elsewhere."""
    if not is_proxied(raw_path) or not _TARGET.fullmatch(raw_path):
        return None
    namespace, name, *below = raw_path[len(_PREFIX) :].decode("ascii").split("/")
    if any(segment.lower().replace("%2e", ".") in {".", ".."} for segment in below):
        return None
    return AgentPath(namespace, name, "/" + "/".join(below))
