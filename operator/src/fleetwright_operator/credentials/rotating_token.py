"""The life of one credential: in use, followed by a next one, good for a while after that. Pure.

    mint next ─▶ whoever is called lists it ─▶ `lead` seconds ─▶ in use, the former one good until the overlap ends

So a caller that reads its token before each call never holds one that is not known yet. Every token has an end of
its own that the called agent enforces by its clock: without an operator, credentials run out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.encoding.canonical_json import sha256_hex
from fleetwright_operator.encoding.timestamps import moment, written

LEAD = 15
"""Seconds between a list's change and the use of what is new in it: a pod that was told re-reads within one or two."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    issued: int | None = None
    """With `expires`; neither where nobody rotates it, as on a developer's machine."""
    expires: int | None = None

    @property
    def sha256(self) -> str:
        return sha256_hex(self.text)


@dataclass(frozen=True, slots=True)
class Retired:
    """A former token: nobody needs its text any more."""

    sha256: str
    expires: int


@dataclass(frozen=True, slots=True)
class Bearer:
    current: Token
    next: Token | None = None
    previous: Retired | None = None
    asked: str = ""
    """The last wish for a rotation that was granted."""

    @property
    def accepted(self) -> Iterator[tuple[str, int | None]]:
        """Digest and end of every token that opens."""
        yield self.current.sha256, self.current.expires
        if self.next:
            yield self.next.sha256, self.next.expires
        if self.previous:
            yield self.previous.sha256, self.previous.expires


def turned(
    stored: Bearer | None,
    *,
    now: int,
    rotation: Rotation,
    mint: Callable[[], str],
    listed: int | None = None,
    asked: str = "",
    lead: int = LEAD,
) -> Bearer:
    """The credential as it should be now; the same one most of the time.

    Args:
        stored: As it was found; None where there is none or it was tampered with.
        listed: Since when whoever is called has known the next token.
        asked: The wish for a rotation that stands now; another one than was granted last is granted.
        lead: For how long the next token is listed before it is used.
    """

    def fresh() -> Token:
        return Token(mint(), now, now + rotation.ttl + rotation.overlap)

    if stored is None:
        return Bearer(fresh(), asked=asked)
    bearer = _bounded(stored, now=now, rotation=rotation)
    if _over(bearer.current, now):
        return Bearer(fresh(), asked=asked)
    if bearer.next is None:
        wanted = now >= _due(bearer.current, rotation) or asked != bearer.asked
        return replace(bearer, next=fresh(), asked=asked) if wanted else bearer
    if listed is None or now < listed + lead:
        return bearer
    end = now + rotation.overlap
    retired = Retired(bearer.current.sha256, min(bearer.current.expires or end, end))
    return Bearer(bearer.next, previous=retired, asked=bearer.asked)


def next_turn(bearer: Bearer, *, rotation: Rotation, listed: int | None = None, lead: int = LEAD) -> int:
    """The moment at which `turned` gives another answer. A next token that nobody lists yet waits for an event."""
    ends = [bearer.previous.expires] if bearer.previous else []
    if bearer.next is None:
        ends.append(_due(bearer.current, rotation))
    else:
        ends.append(listed + lead if listed is not None else bearer.current.expires or 0)
    return min(ends)


def record(bearer: Bearer) -> dict[str, Any]:
    """What is known of a credential beside its tokens: dates, digests, nothing that opens."""
    parts: dict[str, Any] = {"current": _dated(bearer.current), "asked": bearer.asked}
    if bearer.next:
        parts["next"] = _dated(bearer.next)
    if bearer.previous:
        parts["previous"] = {"sha256": bearer.previous.sha256, "expires": written(bearer.previous.expires)}
    return {key: part for key, part in parts.items() if part}


def recorded(document: Any, *, current: str, following: str) -> Bearer | None:
    """The credential of which this is the record, or None where record and tokens do not belong together.

    A token without any record was made before there were records, and its life begins when it is found.
    """
    if document is None:
        return Bearer(Token(current))
    try:
        previous = document.get("previous")
        return Bearer(
            _undated(document["current"], current),
            _undated(document["next"], following) if "next" in document else None,
            Retired(str(previous["sha256"]), moment(previous["expires"])) if previous else None,
            str(document.get("asked", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _dated(token: Token) -> dict[str, str]:
    dates = {"issued": token.issued, "expires": token.expires}
    return {"sha256": token.sha256, **{key: written(date) for key, date in dates.items() if date is not None}}


def _undated(document: Mapping[str, str], text: str) -> Token:
    token = Token(text, moment(document["issued"]), moment(document["expires"]))
    if token.sha256 != document["sha256"]:
        raise ValueError("another token lies there")
    return token


def _bounded(bearer: Bearer, *, now: int, rotation: Rotation) -> Bearer:
    """Without what is over, and with no date later than this rotation gives: not from a clock, not from a hand."""
    longest = now + rotation.ttl + rotation.overlap

    def bounded(token: Token) -> Token:
        if token.issued is None or token.expires is None:
            return Token(token.text, now, longest)
        return Token(token.text, min(token.issued, now), min(token.expires, longest))

    following, previous = bearer.next, bearer.previous
    return replace(
        bearer,
        current=bounded(bearer.current),
        next=bounded(following) if following and not _over(following, now) else None,
        previous=Retired(previous.sha256, min(previous.expires, now + rotation.overlap))
        if previous and previous.expires > now
        else None,
    )


def _over(token: Token, now: int) -> bool:
    return token.expires is not None and token.expires <= now


def _due(token: Token, rotation: Rotation) -> int:
    """Where the times were changed meanwhile, the earlier of both: no token runs out before it is followed."""
    return min((token.issued or 0) + rotation.ttl, (token.expires or 0) - rotation.overlap)
