"""Makes and judges bearer tokens. The one place with randomness, called before `build/`, never in it."""

import re
import secrets

_TOKEN = re.compile(r"^[A-Za-z0-9_-]{43,}$")


def mint_token() -> str:
    """32 random bytes as base64url without padding."""
    return secrets.token_urlsafe(32)


def is_token(text: str | None) -> bool:
    """Whether a stored text can go on being used; a shorter or damaged one is replaced."""
    return text is not None and _TOKEN.match(text) is not None
