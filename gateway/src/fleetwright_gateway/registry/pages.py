"""Pages of lists. A page token holds the position of the next entry, so the gateway keeps no state. Pure."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fleetwright_gateway.http.admission import Refused

Item = TypeVar("Item")
MAX_PAGE: Final = 100
_PREFIX: Final = b"p1:"


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    items: Sequence[Item]
    total: int
    next_token: str | None


def page_of(found: Sequence[Item], *, size: int, token: str | None) -> Page[Item]:
    """Return the page that a token names. Raises: Refused: the token is not one of the gateway."""
    start = _position(token) if token else 0
    end = start + size
    return Page(found[start:end], len(found), _token(end) if end < len(found) else None)


def _token(position: int) -> str:
    return base64.urlsafe_b64encode(_PREFIX + str(position).encode()).rstrip(b"=").decode()


def _position(token: str) -> int:
    try:
        text = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        if text.startswith(_PREFIX) and text[len(_PREFIX) :].isdigit() and len(text) < 20:
            return int(text[len(_PREFIX) :])
    except (ValueError, binascii.Error):
        pass
    raise Refused(400, "pageToken: it is not a token of this list. Use the token of the last page.")
