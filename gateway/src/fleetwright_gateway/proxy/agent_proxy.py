"""The route `/agents/<namespace>/<name>`: checks a request in a fixed order, and forwards it to the agent's pod.

The order is: credential, cache, rate limit, permission, size of the body, budget, pod, forwarding. An agent
that the caller may not call gets the same answer as an agent that does not exist. If the request has waited for a pod,
the permission is checked again, and the agent gets a new token.
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from fleetwright_a2a.authentication import DELEGATION, TASK
from fleetwright_a2a.errors import refuse
from fleetwright_a2a.http.edge import BodyLimit
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.forwarding import is_replaced
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.http.admission import Admitted, Refused, RequestAdmission
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.identity.errors import IdentityError, Unauthenticated
from fleetwright_gateway.identity.principals import AgentPrincipal, ClientPrincipal, Principal
from fleetwright_gateway.proxy.budget_check import BudgetCheck
from fleetwright_gateway.proxy.credentials import RequestCredentials
from fleetwright_gateway.proxy.envelope import HEADER as REPAIR
from fleetwright_gateway.proxy.envelope import requested_body
from fleetwright_gateway.proxy.forwarder import (
    REFUSED,
    UNREACHABLE,
    NotAccepted,
    OutboundRequest,
    ProxyError,
    ResponseAborted,
)
from fleetwright_gateway.proxy.headers import to_agent
from fleetwright_gateway.proxy.idle_timeout import HEADER as TIMEOUT
from fleetwright_gateway.proxy.idle_timeout import idle_seconds
from fleetwright_gateway.proxy.paths import AgentPath, agent_path
from fleetwright_gateway.proxy.redirects import Redirects
from fleetwright_gateway.proxy.request_kinds import may_wake
from fleetwright_gateway.proxy.translation.delivery import Deliver, Delivery, DeliverySelector
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.tokens.call_chain import CallChain, CallChains, InvalidDelegation
from fleetwright_gateway.tokens.pair_tokens import PairTokenIssuer
from fleetwright_gateway.wake.holds import HoldLimit
from fleetwright_gateway.wake.waker import NotAwake, Target, Waker

_logger = logging.getLogger(__name__)
_METHODS: Final = ("DELETE", "GET", "HEAD", "POST")
_NOT_FOUND: Final = "There is no such agent, or this caller may not call it."
FAILURE: Final = "Fleetwright-Failure"
"""The response header with the reason of a 502 or 504. With `unreachable`, the agent received nothing."""
COLD_START: Final = b"fleetwright-cold-start"


class AgentProxy:
    def __init__(
        self,
        *,
        admission: RequestAdmission,
        visibility: Visibility,
        budgets: BudgetCheck,
        chains: CallChains,
        tokens: PairTokenIssuer,
        waker: Waker,
        cards: CardResponses,
        redirects: Redirects,
        deliveries: DeliverySelector,
        metrics: GatewayMetrics,
        agent_port: int,
        idle_seconds: float,
    ) -> None:
        self._admission = admission
        self._visibility = visibility
        self._budgets = budgets
        self._chains = chains
        self._tokens = tokens
        self._waker = waker
        self._cards = cards
        self._redirects = redirects
        self._deliveries = deliveries
        self._metrics = metrics
        self._agent_port = agent_port
        self._default_idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = agent_path(scope["raw_path"])
        # An error response has the format of the binding at the agent's path.
        shown = {**scope, "path": "/" if path is None else unquote(path.rest)}
        started = time.monotonic()
        status = 499  # The caller disconnected, or the response was aborted.
        about: dict[str, object] = {"method": scope["method"]}
        if path is not None:
            about["agent"] = f"{path.namespace}/{path.name}"
        try:
            with self._metrics.open_requests.track_inprogress():
                status = await self._answer(path, shown, receive, send, about)
        except Refused as refusal:
            status = refusal.status
            await refuse(status, refusal.sentence, headers=refusal.headers)(shown, receive, send)
        except ResponseAborted:
            self._metrics.proxy_failures.labels("aborted").inc()
            raise
        finally:
            self._metrics.requests.labels("agents", str(status)).inc()
            about |= {"status": status, "milliseconds": round((time.monotonic() - started) * 1000)}
            _logger.info("request", extra=about)

    async def _answer(
        self, path: AgentPath | None, scope: Scope, receive: Receive, send: Send, about: dict[str, object]
    ) -> int:
        """Answer a request and return the status. `about` is the log line of the request."""
        headers = Headers(scope=scope)
        admitted = await self._admission.admit(headers.getlist("authorization"), scope)
        about["caller"] = admitted.principal.subject
        if scope["method"] not in _METHODS:
            raise Refused(405, f"Use one of {', '.join(_METHODS)}.", {"Allow": ", ".join(_METHODS)})
        agent = None if path is None else await self._found(admitted.principal, path)
        if agent is None or path is None:
            raise Refused(404, _NOT_FOUND)
        if is_replaced(agent):
            raise await self._replaced(admitted.principal, agent, path, scope)
        if path.is_card and scope["method"] in {"GET", "HEAD"}:
            response = self._cards.response(agent, headers)
            if response is None:
                raise Refused(503, "The card of this agent is not known yet.", {"Retry-After": "5"})
            await response(scope, receive, send)
            return response.status_code
        if isinstance(admitted.principal, AgentPrincipal) and admitted.principal.uid == agent.uid:
            raise Refused(400, "An agent cannot call itself; it would wait for its own answer.")
        chain = self._chain(admitted.principal, headers)
        if chain.is_delegated:
            about["principal"] = chain.subject
        call = _Call(self, admitted, chain, agent, path)
        await BodyLimit(call)(scope, receive, call.remember(send))
        return call.status

    async def _found(self, principal: Principal, path: AgentPath) -> AgentView | None:
        try:
            return await self._visibility.find(principal, path.namespace, path.name)
        except IdentityError as error:
            raise self._admission.refusal(error) from None

    async def _replaced(self, principal: Principal, agent: AgentView, path: AgentPath, scope: Scope) -> Refused:
        """Return the response to a request for an agent that another agent has replaced."""
        found = self._redirects.successor(agent)
        if found is not None:
            found = await self._found(principal, AgentPath(found.namespace, found.name, path.rest))
        return self._redirects.refusal(found, path.rest, scope)

    def _chain(self, principal: Principal, headers: Headers) -> CallChain:
        try:
            return self._chains.of(principal, headers.getlist(DELEGATION), headers.getlist(TASK))
        except InvalidDelegation as error:
            raise Refused(403, str(error)) from None

    async def forward(
        self,
        admitted: Admitted,
        chain: CallChain,
        agent: AgentView,
        path: AgentPath,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Forward a request whose caller, agent and size were checked. Raises: Refused, ResponseAborted."""
        asked = Headers(scope=scope)
        try:
            idle = idle_seconds(asked.get(TIMEOUT, ""), agent.spec.fleet.idle_timeout, self._default_idle_seconds)
            body = requested_body(body, asked.get(REPAIR, ""), new_id=lambda: str(uuid.uuid4()))
        except ValueError as error:
            raise Refused(400, str(error)) from None
        caller = f"{chain.subject} {admitted.principal.subject}"
        if await self._deliveries.answer_for_agent(agent, path.rest, scope, body, send, caller=caller):
            return
        self._budgets.require(agent, scope["method"], path.rest, body)
        credentials = RequestCredentials(self._tokens, admitted, chain, agent)
        authorization = credentials.authorization()
        headers = to_agent(scope["headers"])
        if headers is None:
            raise Refused(431, "The headers are too large.")
        delivery = await self._deliveries.select(agent, path.rest, scope, body, caller=caller)

        def wakes() -> bool:
            return may_wake(scope["method"], path.rest, body)

        for is_first in (True, False):
            target = await self._target(admitted.principal, agent, len(body), wakes=wakes, is_probed=not is_first)
            if target.cold_start_ms is not None:
                await self._require_permission(admitted.principal, agent, path, scope)
                authorization = credentials.authorization()
            request = OutboundRequest(
                method=scope["method"],
                url=self._url(target, path, scope["query_string"]),
                headers=[*headers, authorization, *_delegated(credentials, delivery)],
                body=body,
                idle_seconds=idle,
                may_repeat=is_first and agent.spec.sleep is not None and wakes(),
                delegate=credentials.delegation,
            )
            try:
                extra = _extra(admitted, target)
                await self._send_on(delivery.deliver, request, admitted, agent, receive, send, extra=extra)
            except NotAccepted:
                continue  # The pod ends or restarts, which the cache does not show yet. The request waits for the next.
            return

    async def _send_on(
        self,
        deliver: Deliver,
        request: OutboundRequest,
        admitted: Admitted,
        agent: AgentView,
        receive: Receive,
        send: Send,
        *,
        extra: Sequence[tuple[bytes, bytes]],
    ) -> None:
        """Send the request to a pod. Raises: NotAccepted, Refused, ResponseAborted."""
        started = time.monotonic()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.request_seconds.observe(time.monotonic() - started)
            await send(message)

        try:
            await deliver(request, receive, timed, extra=extra)
        except NotAccepted:
            raise
        except ProxyError as error:
            if error.reason == UNREACHABLE and request.may_repeat and self._waker.forget_probe(agent):
                raise NotAccepted from None
            if error.reason == REFUSED and isinstance(admitted.principal, ClientPrincipal):
                # The agent itself has checked the client's token, which may have been revoked a moment ago.
                raise self._admission.refusal(Unauthenticated("client", error.sentence)) from None
            self._metrics.proxy_failures.labels(error.reason).inc()
            retry = {"Retry-After": str(error.retry_seconds)} if error.retry_seconds else {}
            raise Refused(error.status, error.sentence, {FAILURE: error.reason, **retry}) from None

    async def _require_permission(self, principal: Principal, agent: AgentView, path: AgentPath, scope: Scope) -> None:
        """Check again whether a request that has waited may go to the agent. Raises: Refused."""
        current = await self._found(principal, path)
        if current is None or current.uid != agent.uid:
            raise Refused(404, _NOT_FOUND)
        if is_replaced(current):
            raise await self._replaced(principal, current, path, scope)

    async def _target(
        self, principal: Principal, agent: AgentView, size: int, *, wakes: Callable[[], bool], is_probed: bool
    ) -> Target:
        caller = principal.subject
        try:
            return await self._waker.target(agent, caller=caller, size=size, may_wake=wakes, is_probed=is_probed)
        except NotAwake as error:
            raise Refused(503, error.sentence, {"Retry-After": str(error.retry_seconds)}) from None
        except HoldLimit as error:
            raise Refused(429, error.sentence, {"Retry-After": str(error.retry_seconds)}) from None

    def _url(self, target: Target, path: AgentPath, query: bytes) -> str:
        suffix = f"?{query.decode('ascii', 'replace')}" if query else ""
        return target.pod.url("a2a", f"{path.rest}{suffix}", default=self._agent_port)


class _Call:
    """The ASGI application behind the limit of the body: it reads the body and forwards the request."""

    def __init__(
        self, proxy: AgentProxy, admitted: Admitted, chain: CallChain, agent: AgentView, path: AgentPath
    ) -> None:
        self._proxy = proxy
        self._admitted = admitted
        self._chain = chain
        self._agent = agent
        self._path = path
        self.status = 499

    def remember(self, send: Send) -> Send:
        """Return a `send` that notes the status of the response."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            await send(message)

        return noted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"") if scope["method"] == "POST" else b""
        await self._proxy.forward(self._admitted, self._chain, self._agent, self._path, scope, body, receive, send)


def _delegated(credentials: RequestCredentials, delivery: Delivery) -> Sequence[tuple[str, str]]:
    return () if delivery.task_id is None else credentials.delegation(delivery.task_id)


def _extra(admitted: Admitted, target: Target) -> Sequence[tuple[bytes, bytes]]:
    quota = [(name.lower().encode(), value.encode()) for name, value in admitted.quota.headers.items()]
    cold = target.cold_start_ms
    return quota if cold is None else [*quota, (COLD_START, str(cold).encode())]
