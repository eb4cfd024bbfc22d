"""The operator's token for the approvals of one agent. It is derived from the card keys, so it is stored nowhere.

An agent mounts only the digests. A person who can read every Secret of the agent's namespace therefore has no token.
"""

import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fleetwright_operator.credentials.keyring import CardKey, Ring

_INFO: Final = b"fleetwright approvals v1"
_BYTES: Final = 32


def operator_tokens(ring: Ring, agent_uid: str) -> tuple[str, ...]:
    """Return the tokens for one agent. The token of the newest key comes first."""
    return tuple(_token(key, agent_uid) for key in ring)


def token_digests(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the digests that the agent mounts."""
    return tuple(sha256(token.encode()).hexdigest() for token in tokens)


def _token(key: CardKey, agent_uid: str) -> str:
    secret = base64.urlsafe_b64decode(key.secret + "=" * (-len(key.secret) % 4))
    material = int.from_bytes(secret, "big").to_bytes(_BYTES, "big")
    derived = HKDF(algorithm=SHA256(), length=_BYTES, salt=agent_uid.encode(), info=_INFO).derive(material)
    return base64.urlsafe_b64encode(derived).rstrip(b"=").decode()
