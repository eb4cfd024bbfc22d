"""Authenticates the caller of a request and applies its rate limit, before the gateway looks up an agent.

Every route uses this module, so that an unknown caller gets the same answer everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.types import Scope

from fleetwright_gateway.http.client_sources import ClientSources
from fleetwright_gateway.http.rate_limits import Quota, RateLimits
from fleetwright_gateway.identity.authenticator import CHALLENGE, Authenticator, bearer_of
from fleetwright_gateway.identity.errors import IdentityError
from fleetwright_gateway.identity.principals import Principal
from fleetwright_gateway.telemetry.metrics import GatewayMetrics


class Refused(Exception):  # noqa: N818 - an answer, not a failure of the gateway
    """The answer to a request that is not admitted."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Admitted:
    principal: Principal
    quota: Quota
    token: str = field(default="", repr=False)
    """The credential of the caller."""


class RequestAdmission:
    def __init__(
        self,
        authenticator: Authenticator,
        limits: RateLimits,
        *,
        sources: ClientSources,
        problem: Callable[[], str],
        metrics: GatewayMetrics,
    ) -> None:
        """Args: `problem` returns why the cache cannot be used yet; empty if it can."""
        self._authenticator = authenticator
        self._limits = limits
        self._sources = sources
        self._problem = problem
        self._metrics = metrics

    async def admit(self, authorization: Sequence[str], scope: Scope) -> Admitted:
        """Return the caller. Args: `authorization` are the values of the `Authorization` headers.

        Raises:
            Refused: The caller is unknown, or sends too many requests, or the gateway is not ready.
        """
        try:
            token = bearer_of(authorization)
            self.check_ready()
            principal = await self._authenticator.authenticate(token, source=lambda: self._sources.source_of(scope))
            return self.limit(principal, token=token)
        except IdentityError as error:
            raise self.refusal(error) from None

    def limit(self, principal: Principal, *, token: str = "") -> Admitted:
        """Count a request of the caller, and return its admission with the credential. Raises: Refused."""
        quota = self._limits.take(principal.subject)
        if quota.wait_seconds:
            sentence = f"This caller may send {quota.limit} requests a minute. Wait and send it again."
            raise Refused(429, sentence, quota.headers)
        return Admitted(principal, quota, token)

    def check_ready(self) -> None:
        """Raises: Refused: the cache is not filled yet."""
        if problem := self._problem():
            raise Refused(503, f"The gateway is not ready: {problem}.", {"Retry-After": "2"})

    def refusal(self, error: IdentityError) -> Refused:
        self._metrics.authentication_failures.labels(error.reason).inc()
        headers = {"Retry-After": str(error.retry_seconds)} if error.retry_seconds else {}
        if error.status == 401:
            detail = "" if error.reason == "missing" else ', error="invalid_token"'
            headers["WWW-Authenticate"] = f"{CHALLENGE}{detail}"
        return Refused(error.status, error.sentence, headers)
