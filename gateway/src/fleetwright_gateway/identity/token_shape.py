"""Checks of a token before the API server reviews it: size, shape, issuer, audience and expiry. Pure.

The signature is not checked here. A token that passes is only worth a TokenReview.
"""

import base64
import json
from collections.abc import Collection
from typing import Any, Final

MAX_TOKEN: Final = 8 * 1024
_LATEST: Final = 2**53
"""No expiry is later than this time in seconds, and every earlier time is exact as a float."""


def expiry_of(token: str, *, issuers: Collection[str], audiences: Collection[str], now: float) -> float | None:
    """Return the time at which a token expires, or None if the token cannot be valid here.

    Args:
        token: The text of the credential.
        issuers: The accepted issuers; empty if they are not known.
        audiences: The accepted audiences. The token must have one of them.
        now: Seconds since the epoch.
    """
    claims = _claims(token)
    expiry, audience = claims.get("exp"), claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not now < expiry < _LATEST:
        return None
    if not any(isinstance(each, str) and each in audiences for each in named):
        return None
    issuer = claims.get("iss")
    return None if issuers and not (isinstance(issuer, str) and issuer in issuers) else float(expiry)


def issuer_of(token: str) -> str | None:
    """Return the issuer that a token names."""
    issuer = _claims(token).get("iss")
    return issuer if isinstance(issuer, str) else None


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(token) > MAX_TOKEN or len(parts) != 3 or not all(parts):
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
