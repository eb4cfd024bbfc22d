"""The keys that sign this installation's cards: how they are stored, and when they rotate. Pure.

The newest key signs. The previous key signs as well until the overlap ends, so clients with the old key set can still
verify. Damaged keys are dropped, and an empty ring gets a new key.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_operator.credentials.jws import DamagedKey, Signature, SigningKey, canonical, signing_key
from fleetwright_operator.credentials.rotation import Rotation

_MOST_KEYS = 2


@dataclass(frozen=True, slots=True)
class CardKey:
    key: SigningKey
    secret: str
    created: int

    def __repr__(self) -> str:
        return f"CardKey({self.key.kid})"


Ring = tuple[CardKey, ...]
"""Keys, newest first."""


@lru_cache(maxsize=4)
def read_ring(text: str) -> Ring:
    """Return the usable keys of a stored ring."""
    try:
        stored = json.loads(text)["keys"]
        found = [_read(entry) for entry in stored]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return tuple(sorted((key for key in found if key), key=lambda key: -key.created)[:_MOST_KEYS])


def ring_text(ring: Ring) -> str:
    """Return a private JWK set; `iat` is the creation time of each key."""
    return canonical_json({"keys": [{**key.key.public, "d": key.secret, "iat": key.created} for key in ring]})


def key_set(ring: Ring) -> str:
    """Return the public JWK set."""
    return canonical_json({"keys": [dict(key.key.public) for key in ring]})


def renew_ring(ring: Ring, *, now: int, rotation: Rotation, new_secret: Callable[[], str]) -> Ring:
    """Return the ring as it should be now; it is usually unchanged."""
    # A key that was created in the future would never be rotated.
    keys = tuple(CardKey(key.key, key.secret, min(key.created, now)) for key in ring)
    if not keys or now >= keys[0].created + rotation.ttl:
        secret = new_secret()
        keys = (CardKey(signing_key(secret), secret, now), *keys[: _MOST_KEYS - 1])
    return keys if now < keys[0].created + rotation.overlap else keys[:1]


def next_change(ring: Ring, *, rotation: Rotation) -> int:
    """Return the time at which `renew_ring` next changes the ring, which must not be empty."""
    ends = ring[0].created + rotation.ttl
    return min(ends, ring[0].created + rotation.overlap) if len(ring) > 1 else ends


def card_signatures(card: Mapping[str, Any], *, ring: Ring, jku: str = "") -> list[Signature]:
    """Return one signature per key over the canonical form that both A2A SDKs use: RFC 8785, without empty values."""
    return list(_signatures(canonical_json(card), ring, jku))


@lru_cache(maxsize=1024)
def _signatures(card: str, ring: Ring, jku: str) -> tuple[Signature, ...]:
    """Return cached signatures: reconciles are frequent and cards rarely change. Signing again gives equal bytes."""
    payload = canonical(_without_empties(json.loads(card)))
    return tuple(key.key.sign(payload, jku=jku) for key in ring)


def _read(entry: Mapping[str, Any]) -> CardKey | None:
    try:
        return CardKey(signing_key(entry["d"]), entry["d"], int(entry["iat"]))
    except (DamagedKey, KeyError, TypeError, ValueError):
        return None


def _without_empties(value: Any) -> Any:
    """Remove empty strings, lists and objects. Both SDKs remove them before they verify."""
    if isinstance(value, Mapping):
        cleaned = {key: _without_empties(below) for key, below in value.items()}
        return {key: below for key, below in cleaned.items() if below is not None} or None
    if isinstance(value, list):
        return [below for below in map(_without_empties, value) if below is not None] or None
    return None if value == "" else value
