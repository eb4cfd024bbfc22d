"""Mints and validates bearer tokens.

The only source of randomness; it is called before the functions of `build/`, never by them.
"""

import re
import secrets

_TOKEN = re.compile(r"^[A-Za-z0-9_-]{43,}$")


def mint_token() -> str:
    """Return 32 random bytes as base64url without padding."""
    return secrets.token_urlsafe(32)


def is_token(text: str | None) -> bool:
    """Return whether a stored text is a usable token. A shorter or damaged one is replaced."""
    return text is not None and _TOKEN.match(text) is not None
