"""The route `POST /oauth/token`.

The order of checks is: form, credential, cache, rate limit, proof of possession, delegation, target. An agent that the
caller may not call gets the same answer as an agent that does not exist. The token leaves the gateway, so it is issued
only for callers whose permission the callee itself can withdraw: those that name the callee in `spec.peers`.
"""

import logging
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from fleetwright_a2a.authentication import TASK
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.dpop import (
    HEADER,
    NONCE_HEADER,
    InvalidProof,
    NonceRequired,
    Nonces,
    ProofRequest,
    ProofVerifier,
)
from fleetwright_api.call_authorization import allows, peers_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.forwarding import is_replaced
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.exchange.form import ACCESS_TOKEN, ExchangeRequest, OAuthError, parse_form, target_of
from fleetwright_gateway.http.addresses import Addresses
from fleetwright_gateway.http.admission import Admitted, Refused, RequestAdmission
from fleetwright_gateway.identity.principals import AgentPrincipal
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.tokens.call_chain import CallChains, InvalidDelegation, WrongTask
from fleetwright_gateway.tokens.pair_tokens import DIRECT_SECONDS, NoSigningKey, PairTokenIssuer

PATH: Final = "/oauth/token"
_MAX_BODY: Final = 32 * 1024
_HIDDEN: Final = "audience: there is no such agent, or this caller may not call it."
_NOT_DIRECT: Final = "audience: call this agent through the gateway, or name it in spec.peers of the calling Agent."
_REPLACED: Final = (
    "audience: this agent was replaced. Name its successor instead; the gateway answers 308 with the address of the"
    " successor if this caller may call it."
)
_logger = logging.getLogger(__name__)


class ExchangeEndpoint:
    def __init__(
        self,
        *,
        admission: RequestAdmission,
        visibility: Visibility,
        fleet: Fleet,
        chains: CallChains,
        tokens: PairTokenIssuer,
        addresses: Addresses,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        self._admission = admission
        self._visibility = visibility
        self._fleet = fleet
        self._chains = chains
        self._tokens = tokens
        self._bases = (addresses.inside, addresses.outside)
        self._metrics = metrics
        self._clock = clock
        self._proofs = ProofVerifier()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
        status, body = 200, dict[str, Any]()
        try:
            if scope["method"] != "POST":
                raise OAuthError("invalid_request", "Use POST.", status=405, headers={"Allow": "POST"})
            body, limits = await self._exchange(scope, await _read(receive))
            headers |= limits
        except OAuthError as error:
            status, body = error.status, {"error": error.code, "error_description": error.sentence}
            headers |= error.headers
        self._metrics.requests.labels("exchange", str(status)).inc()
        await JSONResponse(body, status_code=status, headers=headers)(scope, receive, send)

    async def _exchange(self, scope: Scope, body: bytes) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the body and the headers of the response. Raises: OAuthError."""
        headers = Headers(scope=scope)
        request = parse_form(body, headers.get("content-type", ""))
        admitted, caller = await self._caller(request, scope)
        thumbprint = self._key_of(headers)
        try:
            chain = self._chains.of(caller, [request.delegation] if request.delegation else [], headers.getlist(TASK))
        except WrongTask as error:
            raise OAuthError("invalid_grant", str(error)) from None
        except InvalidDelegation:
            sentence = "subject_token: the delegation was not issued to this agent, or it has expired."
            raise OAuthError("invalid_grant", sentence) from None
        agent = await self._target(caller, request.audience)
        try:
            issued = self._tokens.direct_credentials(
                chain, agent, task_id=request.audience_task, key_thumbprint=thumbprint
            )
        except NoSigningKey as error:
            raise _unavailable(f"The gateway cannot sign tokens: {error}.", 5) from None
        about = {"caller": caller.subject, "agent": f"{agent.namespace}/{agent.name}", "principal": chain.subject}
        _logger.info("token issued", extra=about)
        return {
            "access_token": issued.pair_token,
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "DPoP",
            "expires_in": DIRECT_SECONDS,
            "delegation": issued.delegation,
        }, admitted.quota.headers

    async def _caller(self, request: ExchangeRequest, scope: Scope) -> tuple[Admitted, AgentPrincipal]:
        name = "actor_token" if request.delegation else "subject_token"
        try:
            admitted = await self._admission.admit([f"Bearer {request.pod_token}"], scope)
        except Refused as refusal:
            if refusal.status == 401:
                raise OAuthError("invalid_grant", f"{name}: the token of the pod is not accepted.") from None
            raise _unavailable(refusal.sentence, headers=refusal.headers, status=refusal.status) from None
        if not isinstance(admitted.principal, AgentPrincipal):
            raise OAuthError("invalid_grant", f"{name} must be the token of an agent's own pod.")
        return admitted, admitted.principal

    def _key_of(self, headers: Headers) -> str:
        """Return the thumbprint of the caller's key. Raises: OAuthError."""
        now = self._clock.now()
        nonces = self._nonces(now)
        fresh = {NONCE_HEADER: nonces.current(now)}
        request = ProofRequest("POST", [f"{base}{PATH}" for base in self._bases])
        try:
            return self._proofs.verify(headers.getlist(HEADER), request, nonces=nonces, now=now)
        except NonceRequired:
            sentence = f"{HEADER}: use the nonce of the header {NONCE_HEADER}."
            raise OAuthError("use_dpop_nonce", sentence, headers=fresh) from None
        except InvalidProof as error:
            raise OAuthError("invalid_dpop_proof", f"{HEADER}: {error.reason}.", headers=fresh) from None

    def _nonces(self, now: float) -> Nonces:
        secret = self._tokens.ring.shared_secret(now)
        if secret is None:
            raise _unavailable(f"The gateway cannot sign tokens: {self._tokens.ring.problem(now)}.", 5)
        return Nonces(secret)

    async def _target(self, caller: AgentPrincipal, audience: str) -> AgentView:
        identity = target_of(audience, self._bases)
        if identity is None:
            raise OAuthError(
                "invalid_target", "audience must be <namespace>/<name>, or the agent's URL at the gateway."
            )
        agent = await self._visibility.find(caller, *identity)
        if agent is None or agent.uid == caller.uid:
            raise OAuthError("invalid_target", _HIDDEN)
        if is_replaced(agent):
            raise OAuthError("invalid_target", _REPLACED)
        if not self._is_direct(caller, agent):
            raise OAuthError("invalid_target", _NOT_DIRECT)
        return agent

    def _is_direct(self, caller: AgentPrincipal, agent: AgentView) -> bool:
        source = self._fleet.agents.get(caller.identity)
        identity = (agent.namespace, agent.name)
        return (
            source is not None
            and identity in peers_of(source)
            and allows(agent, caller.identity, self._fleet.namespace_labels)
        )


async def _read(receive: Receive) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        if len(body) > _MAX_BODY:
            sentence = f"The body is larger than {_MAX_BODY} bytes."
            raise OAuthError("invalid_request", sentence, status=413, headers={"Connection": "close"})
    return bytes(body)


def _unavailable(
    sentence: str, retry_seconds: int = 0, *, headers: dict[str, str] | None = None, status: int = 503
) -> OAuthError:
    retry = {"Retry-After": str(retry_seconds)} if retry_seconds else {}
    return OAuthError("temporarily_unavailable", sentence, status=status, headers={**(headers or {}), **retry})
