"""The callers whose tokens of the gateway an agent no longer accepts. Pure.

The gateway signs tokens that are valid for up to five minutes. An agent verifies them offline, so a token would outlive
the permission of its caller. When a caller loses its permission, the agent refuses the tokens that were issued before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

KEEP_SECONDS: Final = 360
"""How long a revocation is kept: longer than the life of a token plus the tolerated difference between clocks."""
_LAG_SECONDS: Final = 30
"""The longest time for which a replica of the gateway may still issue tokens to a withdrawn caller, clocks included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    caller: str
    """The uid of the caller's Agent object."""
    not_before: int
    """Tokens that were issued at this time or earlier are refused."""

    @property
    def document(self) -> dict[str, Any]:
        return {"caller": self.caller, "notBefore": self.not_before}

    @property
    def ends(self) -> int:
        """The time after which no refused token is valid any more."""
        return self.not_before + KEEP_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCallers:
    """The callers as the operator last wrote them, possibly before a restart."""

    allowed: frozenset[str] = frozenset()
    """The uids of the agents that might call directly."""
    revoked: tuple[Revocation, ...] = ()


def renew_revocations(written: WrittenCallers, *, allowed: Collection[str], now: int) -> tuple[Revocation, ...]:
    """Return the current revocations: the callers that lost their permission and may still have valid tokens.

    A caller that is allowed again is not revoked any more.
    """
    known = {each.caller: each for each in written.revoked if each.ends > now}
    lost = written.allowed - set(allowed)
    added = {caller: Revocation(caller=caller, not_before=now + _LAG_SECONDS) for caller in lost - set(known)}
    kept = {caller: each for caller, each in {**known, **added}.items() if caller not in allowed}
    return tuple(kept[caller] for caller in sorted(kept))


def read_revocations(found: Sequence[Any]) -> tuple[Revocation, ...]:
    """Return the usable entries of `revoked` in a stored file."""
    return tuple(
        Revocation(caller=each["caller"], not_before=each["notBefore"])
        for each in found
        if isinstance(each, Mapping) and type(each.get("caller")) is str and type(each.get("notBefore")) is int
    )
