"""Tokens that are derived from the card keys, so they are stored nowhere: for approvals, and for workspaces.

The server that verifies a token mounts only its digest. A person who can read every Secret of the agent's namespace
therefore has no token for its approvals.
"""

import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fleetwright_operator.credentials.keyring import CardKey, Ring

_APPROVALS: Final = b"fleetwright approvals v1"
_WORKSPACE: Final = b"fleetwright workspace v1"
_BYTES: Final = 32


def operator_tokens(ring: Ring, agent_uid: str) -> tuple[str, ...]:
    """Return the operator's tokens for the approvals of one agent. The token of the newest key comes first."""
    return tuple(_token(key, agent_uid, _APPROVALS) for key in ring)


def workspace_tokens(ring: Ring, agent_uid: str) -> tuple[str, ...]:
    """Return the tokens that the workspace of one agent accepts. The token that the agent uses comes first.

    The agent uses the token of the oldest key, because its workspace has accepted this token for the longest time.
    """
    return tuple(_token(key, agent_uid, _WORKSPACE) for key in reversed(ring))


def token_digests(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the digests with which the tokens are verified."""
    return tuple(sha256(token.encode()).hexdigest() for token in tokens)


def _token(key: CardKey, agent_uid: str, info: bytes) -> str:
    secret = base64.urlsafe_b64decode(key.secret + "=" * (-len(key.secret) % 4))
    material = int.from_bytes(secret, "big").to_bytes(_BYTES, "big")
    derived = HKDF(algorithm=SHA256(), length=_BYTES, salt=agent_uid.encode(), info=info).derive(material)
    return base64.urlsafe_b64encode(derived).rstrip(b"=").decode()
