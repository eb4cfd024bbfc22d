"""Keys and tokens of a gateway, as the agent `echo` receives them."""

import base64
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from fleetwright_a2a.tokens.delegation_token import bind_task

ISSUER = "http://fleetwright-gateway.fleetwright-system"


UID = "6b1c0e0e-2c5e-4b7f-9d3c-0c6a3f6f0001"


CALL = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}


def encode_number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(32, "big")).decode().rstrip("=")


class Key:
    """A key of the gateway. Tokens are signed with PyJWT, so the agent is not tested with its own library."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def public(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        return {
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.kid,
            "x": encode_number(numbers.x), "y": encode_number(numbers.y),
        }  # fmt: skip

    def token(
        self, act: dict[str, Any], *, sub: str | None = None, header: dict[str, Any] | None = None, **changes: Any
    ) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER, "sub": sub or act["sub"], "act": act, "client_id": act["sub"], "aud": UID, "jti": "1",
            "iat": now, "exp": now + 60, **changes,
        }  # fmt: skip
        return jwt.encode(
            claims, self.private, algorithm="ES256", headers={"typ": "at+jwt", "kid": self.kid, **(header or {})}
        )


KEY = Key("first")


AGENT = {"sub": "agent:team/lead", "uid": "u1"}


ANNA = {"sub": "user:anna", "uid": ""}


def build_key_file(*found: Key) -> dict[str, Any]:
    return {"version": 1, "issuer": ISSUER, "audience": UID, "keys": [key.public for key in found]}


def moment_in(seconds: int) -> int:
    return int(time.time()) + seconds


DELEGATION = "Fleetwright-Delegation"


LEAD_FOR_ANNA = {**AGENT, "act": ANNA}


def sign_delegation(
    act: dict[str, Any] = LEAD_FOR_ANNA, *, task: str = "task-of-delegation", key: Key = KEY, **changes: Any
) -> str:
    """Return a delegation. Only the gateway checks the code of its task."""
    now = int(time.time())
    claims = {
        "iss": ISSUER, "aud": ISSUER, "sub": "user:anna", "act": act, "azp": "agent:team/echo", "azp_uid": UID,
        "jti": "d", "iat": now, "exp": now + 4200, **changes,
    }  # fmt: skip
    head = {"typ": "fleetwright-delegation+jwt", "kid": "first"}
    return bind_task(jwt.encode(claims, key.private, algorithm="ES256", headers=head), task, b"secret")
