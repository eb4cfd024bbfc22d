"""Tokens of a local run, with the shape of Kubernetes tokens. Pure.

The gateway checks the shape, the audience and the expiry of a token before it asks the API server. The local cluster
answers instead of an API server. It knows the whole text of each token, so no signature is needed.
"""

import base64
import json
from typing import Final

ISSUER: Final = "fleetwright-dev"
AUDIENCE: Final = "fleetwright-gateway"
PERSON: Final = "developer"
"""The name of the person who runs the fleet."""
_NEVER: Final = 4_102_444_800
"""2100-01-01. A token is valid until the state folder of the run is deleted."""


def token_text(subject: str, secret: str) -> str:
    """Return the token of a subject. Args: `secret` is a random text."""
    parts = ({"alg": "none"}, {"iss": ISSUER, "aud": [AUDIENCE], "exp": _NEVER, "sub": subject})
    return ".".join([*(_encoded(json.dumps(part)) for part in parts), _encoded(secret)])


def agent_uid(namespace: str, name: str) -> str:
    """Return the uid of a local agent. It is the audience of the gateway's tokens, and stays the same in each run."""
    return f"dev-{namespace}-{name}"


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
