"""The life cycle of one bearer token: a next token is minted, comes into use, and the previous one expires. Pure.

    mint next ─▶ the callee accepts it ─▶ `lead` seconds ─▶ in use; the previous one is valid until the overlap ends

A caller that reads its token before each call therefore never holds a token that the callee does not accept yet. Every
token expires, and the called agent enforces the expiry by its own clock. If no operator runs, all credentials expire.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_api.encoding.canonical_json import sha256_hex
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.credentials.rotation import Rotation

LEAD = 15
"""Seconds between adding a token to the callee's list and using that token.

A pod re-reads its files within one or two seconds.
"""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    issued: int | None = None
    """Set together with `expires`. Both are unset if tokens are not rotated, as on a developer's machine."""
    expires: int | None = None

    @property
    def sha256(self) -> str:
        return sha256_hex(self.text)


@dataclass(frozen=True, slots=True)
class RetiredToken:
    """A former token. Its text is not needed any more."""

    sha256: str
    expires: int


@dataclass(frozen=True, slots=True)
class RotatingToken:
    current: Token
    next: Token | None = None
    previous: RetiredToken | None = None
    asked: str = ""
    """The last rotation request that was granted."""

    @property
    def accepted(self) -> Iterator[tuple[str, int | None]]:
        """Yield the digest and the expiry of every token that grants access."""
        yield self.current.sha256, self.current.expires
        if self.next:
            yield self.next.sha256, self.next.expires
        if self.previous:
            yield self.previous.sha256, self.previous.expires


def rotated(
    stored: RotatingToken | None,
    *,
    now: int,
    rotation: Rotation,
    mint: Callable[[], str],
    listed: int | None = None,
    asked: str = "",
    lead: int = LEAD,
) -> RotatingToken:
    """Return the credential as it should be now; it is usually unchanged.

    Args:
        stored: The stored credential; None if there is none or it was tampered with.
        listed: When the next token was added to the callee's `callers.json`.
        asked: The current rotation request. It is granted if it differs from the last granted one.
        lead: For how many seconds the callee accepts the next token before the caller uses it.
    """

    def fresh() -> Token:
        return Token(mint(), now, now + rotation.ttl + rotation.overlap)

    if stored is None:
        return RotatingToken(fresh(), asked=asked)
    credential = _bounded(stored, now=now, rotation=rotation)
    if _over(credential.current, now):
        return RotatingToken(fresh(), asked=asked)
    if credential.next is None:
        wanted = now >= _due(credential.current, rotation) or asked != credential.asked
        return replace(credential, next=fresh(), asked=asked) if wanted else credential
    if listed is None or now < listed + lead:
        return credential
    end = now + rotation.overlap
    retired = RetiredToken(credential.current.sha256, min(credential.current.expires or end, end))
    return RotatingToken(credential.next, previous=retired, asked=credential.asked)


def next_rotation(credential: RotatingToken, *, rotation: Rotation, listed: int | None = None, lead: int = LEAD) -> int:
    """Return the time at which `rotated` next changes the credential.

    If the callee does not accept the next token yet, an event triggers the change instead.
    """
    ends = [credential.previous.expires] if credential.previous else []
    if credential.next is None:
        ends.append(_due(credential.current, rotation))
    else:
        ends.append(listed + lead if listed is not None else credential.current.expires or 0)
    return min(ends)


def record(credential: RotatingToken) -> dict[str, Any]:
    """Return the metadata of a credential: dates and digests, but no secret text."""
    parts: dict[str, Any] = {"current": _dated(credential.current), "asked": credential.asked}
    if credential.next:
        parts["next"] = _dated(credential.next)
    if credential.previous:
        parts["previous"] = {
            "sha256": credential.previous.sha256,
            "expires": format_timestamp(credential.previous.expires),
        }
    return {key: part for key, part in parts.items() if part}


def from_record(document: Any, *, current: str, following: str) -> RotatingToken | None:
    """Return the credential that this record describes, or None if the record and the tokens do not match.

    A token without a record dates from before records existed. Its lifetime starts when it is found.
    """
    if document is None:
        return RotatingToken(Token(current))
    try:
        previous = document.get("previous")
        return RotatingToken(
            _undated(document["current"], current),
            _undated(document["next"], following) if "next" in document else None,
            RetiredToken(str(previous["sha256"]), parse_timestamp(previous["expires"])) if previous else None,
            str(document.get("asked", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _dated(token: Token) -> dict[str, str]:
    dates = {"issued": token.issued, "expires": token.expires}
    return {"sha256": token.sha256, **{key: format_timestamp(date) for key, date in dates.items() if date is not None}}


def _undated(document: Mapping[str, str], text: str) -> Token:
    token = Token(text, parse_timestamp(document["issued"]), parse_timestamp(document["expires"]))
    if token.sha256 != document["sha256"]:
        raise ValueError("the stored token does not match its record")
    return token


def _bounded(credential: RotatingToken, *, now: int, rotation: Rotation) -> RotatingToken:
    """Drop expired tokens, and limit all dates to what this rotation allows.

    A wrong clock or a manual edit can produce later dates.
    """
    longest = now + rotation.ttl + rotation.overlap

    def bounded(token: Token) -> Token:
        if token.issued is None or token.expires is None:
            return Token(token.text, now, longest)
        return Token(token.text, min(token.issued, now), min(token.expires, longest))

    following, previous = credential.next, credential.previous
    return replace(
        credential,
        current=bounded(credential.current),
        next=bounded(following) if following and not _over(following, now) else None,
        previous=RetiredToken(previous.sha256, min(previous.expires, now + rotation.overlap))
        if previous and previous.expires > now
        else None,
    )


def _over(token: Token, now: int) -> bool:
    return token.expires is not None and token.expires <= now


def _due(token: Token, rotation: Rotation) -> int:
    """Return when the next token is due.

    If the rotation settings changed, the earlier of the two times counts, so that no token expires before its
    successor.
    """
    return min((token.issued or 0) + rotation.ttl, (token.expires or 0) - rotation.overlap)
