"""The audiences of tokens that the API server accepts, read from the operator's own token.

The kubelet requests the token without an audience, so the API server adds its default audiences. This module does not
verify the signature, because the operator trusts its own token.
"""

import base64
import json


def api_audiences(token: str | None) -> frozenset[str]:
    """Return the audiences (`aud`, RFC 7519 §4.1.3) of a token.

    Args:
        token: The operator's own token; None if it authenticates with a client certificate.

    Returns:
        An empty set if the token is not a JSON web token.
    """
    parts = (token or "").split(".")
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        found = payload.get("aud", ())
    except (IndexError, ValueError, AttributeError):
        return frozenset()
    return frozenset({found} if isinstance(found, str) else filter(lambda each: isinstance(each, str), found))
