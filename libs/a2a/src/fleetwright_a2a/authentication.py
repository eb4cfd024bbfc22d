"""Authenticates every request except reads of the public paths. Each authentication method is an `Identity`.

Requests with more than one credential are rejected as ambiguous. The caller learns whether its credential is missing,
malformed or ambiguous. For any other rejected credential, the `Identity` chooses the text that the caller sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable
from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.errors import refuse

PUBLIC: Final = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})
"""The paths that need no credential for GET and HEAD. Every other request requires a credential."""
_READS: Final = frozenset({"GET", "HEAD"})
_MAX_TOKEN: Final = 8192
_API_KEY: Final = "x-api-key"
DELEGATION: Final = "fleetwright-delegation"
"""The header of a delegation. It counts only together with the credential that the gateway or an agent sends."""
TASK: Final = "fleetwright-task"
"""The header with which an agent states the task of its delegation to the gateway. The id is percent-encoded."""
AGENT_UID: Final = "fleetwright-agent-uid"
"""The header with which an agent names its Agent object in responses to readiness probes."""


def encode_task_id(task_id: str) -> str:
    """Return the id of a task as the value of the header `Fleetwright-Task`. Callers may choose ids with any character.

    The gateway decodes it with `decode_task_id`.
    """
    return quote(task_id, safe="")


def decode_task_id(value: str) -> str:
    """Return the id of the task that the value of a header `Fleetwright-Task` states."""
    return unquote(value.strip())


@dataclass(frozen=True, slots=True)
class Delegation:
    """The right of this agent to act for the principal of one task while the agent works on that task."""

    token: str = field(repr=False)
    expires_at: int
    """Seconds since the epoch."""
    task_id: str
    """The only task of this agent in which the delegation is valid."""


@dataclass(frozen=True, slots=True)
class CallerUser:
    """The caller in the form that Starlette and the A2A SDK expect; `display_name` is the owner key."""

    display_name: str
    is_authenticated: bool = True
    delegation: Delegation | None = None
    chain: tuple[str, ...] = ()
    """The agents that the request came through, the first caller first, if the credential names them."""


@dataclass(frozen=True, slots=True)
class AuthenticationFailure:
    reason: str
    """The reason as a label value of the metric of rejected requests."""
    sentence: str
    challenge: str = ""
    """The value of `WWW-Authenticate`, if it differs from that of other failures."""
    nonce: str = ""
    """The nonce for the next proof (`DPoP-Nonce`)."""


@dataclass(frozen=True, slots=True)
class Credential:
    token: str
    is_api_key: bool = False
    is_bound: bool = False
    """True for a token that the caller sends with a proof of possession (the scheme `DPoP`)."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The method and the path of a request. A proof of possession must name both, below an address of this server.

    The `Host` header is no part of it, because the caller chooses it (RFC 9449 §4.3).
    """

    method: str
    path: str
    """The path as sent, without the query."""


def credential_of(headers: Headers, *, api_keys: bool, proofs: bool = False) -> Credential | AuthenticationFailure:
    """Return the single credential of a request, or the reason why there is none.

    The API key header is ignored unless API keys are enabled, and the scheme `DPoP` is refused unless proofs are.
    """
    keys = headers.getlist(_API_KEY) if api_keys else []
    if not keys:
        return _authorization(headers, proofs=proofs)
    if len(keys) > 1 or headers.getlist("authorization"):
        return AuthenticationFailure("ambiguous", "Exactly one credential is accepted: a bearer token or an API key.")
    key = keys[0].strip()
    if not key or len(key) > _MAX_TOKEN:
        return AuthenticationFailure("malformed", "The X-API-Key header must hold the key and nothing else.")
    return Credential(key, is_api_key=True)


def _authorization(headers: Headers, *, proofs: bool) -> Credential | AuthenticationFailure:
    """Return the token of the header `Authorization`, or the reason why there is none."""
    values = headers.getlist("authorization")
    if not values:
        return AuthenticationFailure("missing", "A bearer token is required.")
    if len(values) > 1:
        return AuthenticationFailure("ambiguous", "Exactly one Authorization header is accepted.")
    scheme, _, token = values[0].partition(" ")
    token = token.strip()
    is_bound = proofs and scheme.lower() == "dpop"
    if not (is_bound or scheme.lower() == "bearer") or not token or len(token) > _MAX_TOKEN or "," in token:
        return AuthenticationFailure("malformed", "The Authorization header must be: Bearer <token>.")
    return Credential(token, is_bound=is_bound)


class Principal(Protocol):
    """An authenticated caller."""

    @property
    def owner(self) -> str:
        """The key of everything that the caller creates, such as `client:default` or `agent:<namespace>/<name>`."""


@runtime_checkable
class ForwardedPrincipal(Protocol):
    """An authenticated caller whose credential names the agents that the request came through."""

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents as `agent:<namespace>/<name>`, the first caller first."""


@runtime_checkable
class DelegatingPrincipal(Principal, Protocol):
    """An authenticated caller that may let the agent act for a principal."""

    @property
    def delegation(self) -> Delegation | None:
        """The delegation of the request; None if the agent can act for itself only."""


class Identity(Protocol):
    """A method of authentication; another method is another implementation."""

    @property
    def schemes(self) -> Sequence[str]:
        """The accepted schemes with their parameters, as they appear in the `WWW-Authenticate` header."""

    def identify(self, headers: Headers) -> Principal | AuthenticationFailure:
        """Return the caller, which will own everything that the call creates, or the reason for a rejection."""


@runtime_checkable
class ProofIdentity(Identity, Protocol):
    """A method of authentication that also accepts tokens with a proof of possession."""

    def identify_request(self, headers: Headers, target: RequestTarget) -> Principal | AuthenticationFailure:
        """Return the caller as `identify` does. Args: `target` is the request that a proof must name."""


class AuthenticationMiddleware:
    """ASGI middleware that rejects requests without a valid credential and sets `user` in the scope of all others.

    `on_failure` is called with the reason of each rejection.
    """

    def __init__(self, app: ASGIApp, *, identity: Identity, on_failure: Callable[[str], None]) -> None:
        self._app = app
        self._identity = identity
        self._with_proofs = identity if isinstance(identity, ProofIdentity) else None
        self._on_failure = on_failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PUBLIC and scope["method"] in _READS:
            await self._app(scope, receive, send)
            return
        caller = self._caller(scope)
        if isinstance(caller, AuthenticationFailure):
            self._on_failure(caller.reason)
            first, *others = self._identity.schemes
            # HTTP requires the schemes in this header. Its `error` is the same for every rejected credential.
            error = "" if caller.reason == "missing" else ', error="invalid_token"'
            headers = {"WWW-Authenticate": caller.challenge or ", ".join([f"{first}{error}", *others])}
            if caller.nonce:
                headers["DPoP-Nonce"] = caller.nonce
            await refuse(401, caller.sentence, headers=headers)(scope, receive, send)
            return
        chain = caller.chain if isinstance(caller, ForwardedPrincipal) else ()
        delegation = caller.delegation if isinstance(caller, DelegatingPrincipal) else None
        user = CallerUser(caller.owner, delegation=delegation, chain=chain)
        await self._app({**scope, "user": user}, receive, send)

    def _caller(self, scope: Scope) -> Principal | AuthenticationFailure:
        headers = Headers(scope=scope)
        if self._with_proofs is None:
            return self._identity.identify(headers)
        path = scope["raw_path"].decode("ascii", "replace")
        return self._with_proofs.identify_request(headers, RequestTarget(scope["method"], path))
