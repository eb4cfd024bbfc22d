"""The keys with which one agent seals the credentials of receivers in its task log. Pure.

A key follows another when somebody wishes it, by the annotation that turns tokens too. Former keys stay for a while,
because what they sealed is still there; damaged ones are left out, and an agent without any gets one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from fleetwright_operator.credentials.tokens import is_token

_MOST_KEYS = 8


@dataclass(frozen=True, slots=True)
class PushKeys:
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Newest first; each 32 bytes as base64url."""
    asked: str = ""
    """The last wish for another key that was granted."""

    @property
    def file(self) -> str:
        """As the runtime reads it."""
        return "".join(f"{text}\n" for text in self.texts)


def read_keys(text: str, *, asked: str) -> PushKeys:
    return PushKeys(tuple(filter(is_token, text.split())), asked)


def renewed(stored: PushKeys, *, asked: str, mint: Callable[[], str]) -> PushKeys:
    """The keys as they should be now; the same ones most of the time."""
    if not stored.texts:
        return PushKeys((mint(),), asked)
    if asked in ("", stored.asked):
        return stored
    return PushKeys((mint(), *stored.texts)[:_MOST_KEYS], asked)
