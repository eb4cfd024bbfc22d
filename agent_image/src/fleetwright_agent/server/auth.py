"""Authentication: checks a bearer token against the mounted digests, on every path that is not explicitly public.

The digest of a token is compared in constant time with that of every caller, and expires by the agent's clock. Without
a readable list of callers every request is rejected; an earlier list is not reused. If the configuration allows it, a
client may send its token as an API key. Requests with ambiguous credentials are rejected.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_agent.clock import Clock
from fleetwright_agent.config.callers import Caller, CallerKind, Callers
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.server.errors import refuse
from fleetwright_agent.telemetry.metrics import Metrics

PUBLIC: Final = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})
"""The public paths; every other path requires a credential."""
_READS: Final = frozenset({"GET", "HEAD"})
_MAX_TOKEN: Final = 4096
_API_KEY: Final = "x-api-key"


@dataclass(frozen=True, slots=True)
class CallerUser:
    """The caller as Starlette and the SDK see it; `display_name` is the owner key."""

    display_name: str
    is_authenticated: bool = True


def parse_callers(raw: bytes) -> Callers:
    """Parse the list of callers.

    Raises: ValueError: the file is invalid; the text never repeats its content.
    """
    try:
        callers = Callers.model_validate(json.loads(raw))
    except ValidationError as error:
        places = sorted({".".join(str(step) for step in e["loc"]) for e in error.errors()})
        raise ValueError(f"check {', '.join(places) or 'its shape'}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("it is not JSON") from None
    holders: dict[str, str] = {}
    for caller in callers.callers:
        if holders.setdefault(caller.sha256, caller.owner) != caller.owner:
            raise ValueError(f"{caller.owner} and {holders[caller.sha256]} hold the same token")
    return callers


def recognise(token: str, callers: Callers) -> Caller | None:
    """Return the caller with this token, in the same time for every caller and for an unknown token."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    found: Caller | None = None
    for caller in callers.callers:
        if hmac.compare_digest(digest, caller.sha256):
            found = caller
    return found


@dataclass(frozen=True, slots=True)
class AuthenticationFailure:
    reason: str
    """The label of the metric."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Credential:
    token: str
    is_api_key: bool = False


def credential_of(headers: Headers, *, api_keys: bool) -> Credential | AuthenticationFailure:
    """Return the single credential of a request; the API key header is ignored unless API keys are enabled."""
    keys = headers.getlist(_API_KEY) if api_keys else []
    if not keys:
        token = token_of(headers)
        return token if isinstance(token, AuthenticationFailure) else Credential(token)
    if len(keys) > 1 or headers.getlist("authorization"):
        return AuthenticationFailure("ambiguous", "Exactly one credential is accepted: a bearer token or an API key.")
    key = keys[0].strip()
    if not key or len(key) > _MAX_TOKEN:
        return AuthenticationFailure("malformed", "The X-API-Key header must hold the key and nothing else.")
    return Credential(key, is_api_key=True)


def token_of(headers: Headers) -> str | AuthenticationFailure:
    """Return the bearer token of a request."""
    values = headers.getlist("authorization")
    if not values:
        return AuthenticationFailure("missing", "A bearer token is required.")
    if len(values) > 1:
        return AuthenticationFailure("ambiguous", "Exactly one Authorization header is accepted.")
    scheme, _, token = values[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN or "," in token:
        return AuthenticationFailure("malformed", "The Authorization header must be: Bearer <token>.")
    return token


class Identity(Protocol):
    """A method of authentication; another method is another implementation."""

    @property
    def schemes(self) -> Sequence[str]:
        """The accepted schemes with their parameters, as they appear in the `WWW-Authenticate` header."""

    def identify(self, headers: Headers) -> Caller | AuthenticationFailure:
        """Return the authenticated caller, who becomes the owner of everything that the call creates."""


class MountedTokens:
    """Authentication by tokens, whose digests the operator mounts; the default."""

    def __init__(self, callers: FileWatcher[Callers], *, realm: str, clock: Clock, api_keys: bool = False) -> None:
        self._callers = callers
        self._clock = clock
        self._api_keys = api_keys
        keys = [f'ApiKey realm="{realm}", header="X-API-Key"'] if api_keys else []
        self.schemes: Sequence[str] = [f'Bearer realm="{realm}"', *keys]

    def identify(self, headers: Headers) -> Caller | AuthenticationFailure:
        credential = credential_of(headers, api_keys=self._api_keys)
        if isinstance(credential, AuthenticationFailure):
            return credential
        callers, problem = self._callers.recent()
        caller = None if callers is None else recognise(credential.token, callers)
        if caller is None:
            # The cached list may be stale, and a new token must be accepted at once.
            callers, problem = self._callers.read()
            caller = None if callers is None else recognise(credential.token, callers)
        if callers is None or problem:
            return AuthenticationFailure("no_callers", "The token is not accepted.")
        if caller is None or (credential.is_api_key and caller.kind is not CallerKind.CLIENT):
            return AuthenticationFailure("unknown", "The token is not accepted.")
        if caller.expires is not None and caller.expires.timestamp() * 1e9 <= self._clock.now_ns():
            return AuthenticationFailure("expired", "The token has expired: read the current one and send it.")
        return caller


class AuthenticationMiddleware:
    """ASGI middleware that rejects unknown callers and sets the user of the others."""

    def __init__(self, app: ASGIApp, *, identity: Identity, metrics: Metrics) -> None:
        self._app = app
        self._identity = identity
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PUBLIC and scope["method"] in _READS:
            await self._app(scope, receive, send)
            return
        caller = self._identity.identify(Headers(scope=scope))
        if isinstance(caller, AuthenticationFailure):
            self._metrics.auth_failures.labels(caller.reason).inc()
            first, *others = self._identity.schemes
            # The header must name the schemes. A caller learns only that its token is not accepted, not why.
            error = "" if caller.reason == "missing" else ', error="invalid_token"'
            headers = {"WWW-Authenticate": ", ".join([f"{first}{error}", *others])}
            await refuse(401, caller.sentence, headers=headers)(scope, receive, send)
            return
        await self._app({**scope, "user": CallerUser(caller.owner)}, receive, send)
