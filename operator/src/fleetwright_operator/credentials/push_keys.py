"""The keys with which one agent encrypts the credentials of webhook receivers in its task log. Pure.

A new key is added when a user requests it, by the annotation that also rotates tokens. Former keys stay for a while,
because they are needed to decrypt older entries. Damaged keys are dropped, and an agent without keys gets a new key.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from fleetwright_operator.credentials.tokens import is_token

_MOST_KEYS = 8


@dataclass(frozen=True, slots=True)
class PushKeys:
    texts: tuple[str, ...] = field(default=(), repr=False)
    """Newest first; each is 32 bytes as base64url."""
    asked: str = ""
    """The last rotation request that was granted."""

    @property
    def file(self) -> str:
        """Return the keys in the format that the runtime reads."""
        return "".join(f"{text}\n" for text in self.texts)


def read_keys(text: str, *, asked: str) -> PushKeys:
    return PushKeys(tuple(filter(is_token, text.split())), asked)


def renew_keys(stored: PushKeys, *, asked: str, mint: Callable[[], str]) -> PushKeys:
    """Return the keys as they should be now; they are usually unchanged."""
    if not stored.texts:
        return PushKeys((mint(),), asked)
    if asked in ("", stored.asked):
        return stored
    return PushKeys((mint(), *stored.texts)[:_MOST_KEYS], asked)
