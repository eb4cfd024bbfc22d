"""Delegation tokens: the right of one agent to act for a principal in one task, while the agent works on that task.

The gateway issues a delegation to the agent that it calls. It accepts the delegation only together with the token of
that agent's own pod and the id of the task. `sub` is the original principal, and `act` is the chain of the agent's
callers. If the agent calls another agent with its delegation, the gateway issues a delegation for that other agent. The
new delegation never lives longer than the one that was used for the call.

A delegation is a signed JWT, the id of the task, and a message authentication code of both (RFC 2104), separated by
`~`. Only the gateway can make and check the code. It signs one JWT for several tasks, because a signature for each
message would take a quarter of the processor time of a request.
"""

import binascii
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from joserfc.jwk import ECKey

from fleetwright_a2a.tokens.actors import Actor, encode_actor, parse_actor
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet, check_times, sign

MAX_SECONDS: Final = 24 * 3600
"""The longest lifetime of a delegation."""
_TYPE: Final = "fleetwright-delegation+jwt"
_SEPARATOR: Final = "~"
_MAX_TASK_ID: Final = 128
"""The longest id of a task that agents accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationClaims:
    issuer: str
    """The gateway, which is also the only audience."""
    subject: str
    """The original principal."""
    actor: Actor
    """The chain of callers, without the holder. The holder's immediate caller is outermost."""
    holder: str
    """The agent that may use the delegation: `agent:<namespace>/<name>`."""
    holder_uid: str
    """The uid of the holder's Agent object."""
    task: str
    """The id of the holder's task. The gateway chooses the id of a task that does not exist yet, unless the message
    names it (A2A 0.1)."""
    token_id: str
    issued_at: int
    expires_at: int


def mint_delegation(claims: DelegationClaims, key: ECKey) -> str:
    """Return a delegation that is signed with the key, and whose code is made with the secret of the same key.

    Raises:
        ValueError: The chain is too long, or the delegation would live too long.
    """
    return bind_task(sign_grant(claims, key), claims.task, task_secret(key.as_dict(private=True)))


def sign_grant(claims: DelegationClaims, key: ECKey) -> str:
    """Return the signed part of a delegation, which is the same for all tasks. Raises: ValueError, as above."""
    if not 0 < claims.expires_at - claims.issued_at <= MAX_SECONDS:
        raise ValueError(f"a delegation lives for at most {MAX_SECONDS} seconds")
    payload: dict[str, Any] = {
        "iss": claims.issuer,
        "aud": claims.issuer,
        "sub": claims.subject,
        "act": encode_actor(claims.actor),
        "azp": claims.holder,
        "azp_uid": claims.holder_uid,
        "jti": claims.token_id,
        "iat": claims.issued_at,
        "exp": claims.expires_at,
    }
    return sign(payload, key, kind=_TYPE)


def bind_task(grant: str, task: str, secret: bytes) -> str:
    """Return the delegation for one task. Args: `secret` is the `task_secret` of a key of the gateway."""
    bound = f"{grant}{_SEPARATOR}{_encoded(task.encode())}"
    return f"{bound}{_SEPARATOR}{_encoded(_code(bound, secret))}"


def task_secret(jwk: Mapping[str, Any]) -> bytes:
    """Derive the secret that binds delegations to tasks from a private key on P-256."""
    return hmac.new(str(jwk["d"]).encode(), b"delegations", sha256).digest()


def is_bound(delegation: str, secrets: Iterable[bytes]) -> bool:
    """Return whether the gateway has issued the delegation for the task that it names."""
    bound, _, code = delegation.rpartition(_SEPARATOR)
    codes = [_encoded(_code(bound, secret)) for secret in secrets]
    return any(hmac.compare_digest(each.encode(), code.encode()) for each in codes)


def _code(bound: str, secret: bytes) -> bytes:
    return hmac.new(secret, bound.encode(), sha256).digest()


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def verify_delegation(token: str, keys: KeySet, *, issuer: str, now: float) -> DelegationClaims:
    """Return the claims of a delegation that is valid now.

    This function checks neither the holder nor the code of the task. The gateway requires that the holder has sent the
    request, and checks the code with `is_bound`. A called agent requires that it is itself the holder.

    Raises:
        InvalidToken: The delegation is not accepted. The reason is for logs, not for the agent that sent it.
    """
    grant, task = _parts(token)
    claims = replace(keys.claims_of(grant, kind=_TYPE, parse=_parsed), task=task)
    if claims.issuer != issuer:
        raise InvalidToken("the delegation has another issuer")
    check_times(claims.issued_at, claims.expires_at, now)
    return claims


def _parts(token: str) -> tuple[str, str]:
    """Return the signed part and the task. Raises: InvalidToken."""
    try:
        grant, encoded, _ = token.split(_SEPARATOR)
        task = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (ValueError, binascii.Error):
        raise InvalidToken("the delegation names no task") from None
    # Agents do not check the code, so a caller of an agent can choose this text.
    if not 0 < len(task) <= _MAX_TASK_ID or not task.isprintable():
        raise InvalidToken("the delegation names no task")
    return grant, task


def _parsed(payload: bytes) -> DelegationClaims:
    try:
        found = json.loads(payload)
        texts = [found[name] for name in ("iss", "sub", "azp", "azp_uid", "jti")]
        times = [found["iat"], found["exp"]]
        actor = parse_actor(found["act"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidToken("a claim is missing or malformed") from None
    whole = all(type(text) is str and text for text in texts) and all(type(time) is int for time in times)
    if not whole or found.get("aud") != found["iss"]:
        raise InvalidToken("a claim is missing or malformed")
    if not 0 < times[1] - times[0] <= MAX_SECONDS:
        raise InvalidToken("the delegation lives too long")
    issuer, subject, holder, holder_uid, token_id = texts
    return DelegationClaims(
        issuer=issuer,
        subject=subject,
        actor=actor,
        holder=holder,
        holder_uid=holder_uid,
        task="",
        token_id=token_id,
        issued_at=times[0],
        expires_at=times[1],
    )
