"""Authentication by bearer tokens, whose digests the operator mounts, and by signed tokens of the gateway.

The digest of a token is compared in constant time with the digests of all callers. The agent's clock determines whether
a digest has expired. If the list of callers is not readable, no token is accepted by its digest, and an earlier list is
not reused. If the configuration allows it, a client may send its token as an API key. Only `gateway_tokens` verifies
signed tokens.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

from pydantic import ValidationError
from starlette.datastructures import Headers

from fleetwright_a2a.authentication import (
    DELEGATION,
    AuthenticationFailure,
    Credential,
    RequestTarget,
    credential_of,
)
from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.callers import Caller, CallerKind, Callers
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.operator import OperatorToken, OperatorTokens
from fleetwright_agent.server.dpop import PresentedProof
from fleetwright_agent.server.gateway_tokens import GatewayCaller, GatewayTokens, looks_signed

_Holder = TypeVar("_Holder", Caller, OperatorToken)


def parse_callers(raw: bytes) -> Callers:
    """Parse the list of callers.

    Raises: ValueError: the file is invalid. The error text never repeats the content of the file.
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
    """Return the caller with this token. The comparison takes the same time for every token, known or unknown."""
    return _holder(token, callers.callers)


def _holder(token: str, holders: Iterable[_Holder]) -> _Holder | None:
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    found: _Holder | None = None
    for holder in holders:
        if hmac.compare_digest(digest, holder.sha256):
            found = holder
    return found


def parse_operators(raw: bytes) -> OperatorTokens:
    """Parse the digests of the operator's tokens. Raises: ValueError: the file is invalid."""
    try:
        return OperatorTokens.model_validate_json(raw)
    except ValidationError as error:
        places = sorted({".".join(str(step) for step in e["loc"]) for e in error.errors()})
        raise ValueError(f"check {', '.join(places) or 'its shape'}") from None


class MountedTokens:
    """The default authentication: by tokens whose digests the operator mounts, and by tokens of the gateway."""

    def __init__(
        self,
        callers: FileWatcher[Callers],
        *,
        realm: str,
        clock: Clock,
        gateway: GatewayTokens | None = None,
        operators: FileWatcher[OperatorTokens] | None = None,
        api_keys: bool = False,
    ) -> None:
        """
        Args:
            gateway: Verifies the tokens of the gateway; None to accept none.
            operators: The digests of the operator's tokens; None to accept none.
        """
        self._operators = operators
        self._callers = callers
        self._gateway = gateway
        self._clock = clock
        self._api_keys = api_keys
        keys = [f'ApiKey realm="{realm}", header="X-API-Key"'] if api_keys else []
        self.schemes: Sequence[str] = [f'Bearer realm="{realm}"', *keys]

    def _operator(self, token: str) -> OperatorToken | None:
        """Return the operator with this token. The file exists only for agents that may ask for approvals."""
        found = None if self._operators is None else self._operators.read()[0]
        return None if found is None else _holder(token, found.operators)

    def identify(self, headers: Headers) -> Caller | OperatorToken | GatewayCaller | AuthenticationFailure:
        """Identify a caller without a proof of possession."""
        return self._identified(headers, credential_of(headers, api_keys=self._api_keys), None)

    def identify_request(
        self, headers: Headers, target: RequestTarget
    ) -> Caller | OperatorToken | GatewayCaller | AuthenticationFailure:
        proofs = self._gateway is not None and self._gateway.is_trusted
        return self._identified(headers, credential_of(headers, api_keys=self._api_keys, proofs=proofs), target)

    def _identified(
        self, headers: Headers, credential: Credential | AuthenticationFailure, target: RequestTarget | None
    ) -> Caller | OperatorToken | GatewayCaller | AuthenticationFailure:
        if isinstance(credential, AuthenticationFailure):
            return credential
        is_signed = credential.is_bound or (not credential.is_api_key and looks_signed(credential.token))
        if self._gateway is not None and is_signed:
            proof = PresentedProof(headers.getlist("dpop"), target) if credential.is_bound and target else None
            return self._gateway.identify(credential.token, headers.getlist(DELEGATION), proof)
        callers, problem = self._callers.recent()
        caller = None if callers is None else recognise(credential.token, callers)
        if caller is None:
            # The cached list may be stale, and a new token must be accepted at once.
            callers, problem = self._callers.read()
            caller = None if callers is None else recognise(credential.token, callers)
        if caller is None and not credential.is_api_key and (operator := self._operator(credential.token)):
            return operator
        if callers is None or problem:
            return AuthenticationFailure("no_callers", "The token is not accepted.")
        if caller is None or (credential.is_api_key and caller.kind is not CallerKind.CLIENT):
            return AuthenticationFailure("unknown", "The token is not accepted.")
        if caller.expires is not None and caller.expires.timestamp() * 1e9 <= self._clock.now_ns():
            return AuthenticationFailure("expired", "The token has expired: read the current one and send it.")
        return caller
