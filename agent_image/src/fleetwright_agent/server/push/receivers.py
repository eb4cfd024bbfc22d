"""HTTP requests to push receivers: the check whether a URL is allowed, and a single delivery attempt.

Redirects are not followed, because the credentials are meant only for the registered address. Only the status of a
response is read. This module does not retry, and does not know tasks.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from fleetwright_a2a.lazy_import import import_in_thread
from fleetwright_a2a.outbound.policy.addresses import Ip
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget, UnusableUrl, target_of
from fleetwright_agent.server.push.name_lookups import NameLookups, Resolve

if TYPE_CHECKING:
    import httpx

ATTEMPT_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 5.0
_PASSING: Final = frozenset({408, 429})


class DeliveryVerdict(Enum):
    DELIVERED = "delivered"
    AGAIN = "again"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    verdict: DeliveryVerdict
    reason: str = ""


class ForbiddenReceiver(ValueError):  # noqa: N818 - reads as what the address is
    """The agent does not send to this address. The text explains the reason to the caller that registered it."""


def judged(status: int) -> DeliveryResult:
    """Classify a response: redirects and most 4xx statuses are permanent failures; other failures are retried."""
    if 200 <= status < 300:
        return DeliveryResult(DeliveryVerdict.DELIVERED)
    if 300 <= status < 400:
        return DeliveryResult(DeliveryVerdict.NEVER, "it redirects: register the address that it redirects to")
    if 400 <= status < 500 and status not in _PASSING:
        return DeliveryResult(DeliveryVerdict.NEVER, f"it rejects the notification with status {status}")
    return DeliveryResult(DeliveryVerdict.AGAIN, f"it responds with status {status}")


_looked_at: ContextVar[Sequence[Ip]] = ContextVar("looked_at")
"""The resolved addresses of the receiver. The transport connects in the same asyncio task that resolved the name."""


async def _looked_up(host: str, port: int) -> Sequence[Ip]:  # noqa: ARG001 - see above
    return _looked_at.get()


_HTTP: Final = "fleetwright_a2a.outbound.pinned_http"


class Receivers:
    def __init__(
        self, policy: EgressPolicy, *, seconds: float = ATTEMPT_SECONDS, resolving: Resolve | None = None
    ) -> None:
        self._policy = policy
        self._seconds = seconds
        self._lookups = NameLookups(resolving)
        self._opening = asyncio.Lock()
        self._client: httpx.AsyncClient | None = None

    async def check(self, owner: str, url: str) -> EgressTarget:
        """Check that notifications may be sent to a URL.

        Raises:
            ForbiddenReceiver: The URL is invalid, its name is unknown, or one of its addresses is not allowed.
            TooManyLookups: The limit of concurrent DNS lookups was reached for too long.
        """
        await import_in_thread(_HTTP)
        from fleetwright_a2a.outbound.pinned_http import DeniedAddress

        try:
            target = target_of(url)
            await self._addresses(owner, target, patience=_PATIENCE_SECONDS)
        except UnusableUrl as error:
            raise ForbiddenReceiver(str(error)) from None
        except (DeniedAddress, OSError):
            # Use the same text for unknown and for denied names, so that a caller cannot probe internal host names.
            raise ForbiddenReceiver(
                f"{target.text} does not resolve to an address that this agent may send to;"
                " ask for an entry in spec.a2a.push of the Agent"
            ) from None
        return target

    async def post(self, owner: str, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryResult:
        """Make one delivery attempt.

        The name is resolved and checked again, because its addresses may have changed since the registration. The time
        limit of the attempt does not include the DNS lookup, which has a separate limit.
        """
        await import_in_thread(_HTTP)
        import httpx

        from fleetwright_a2a.outbound.pinned_http import DeniedAddress

        try:
            _looked_at.set(await self._addresses(owner, target_of(url)))
            client = await self._opened()
            async with (
                asyncio.timeout(self._seconds),
                client.stream("POST", url, headers=dict(headers), content=body) as response,
            ):
                return judged(response.status_code)
        except DeniedAddress:
            return DeliveryResult(DeliveryVerdict.NEVER, "its name leads to an address that this agent may not send to")
        except (TimeoutError, httpx.TimeoutException):
            return DeliveryResult(DeliveryVerdict.AGAIN, f"it did not answer within {self._seconds:g} s")
        except (httpx.HTTPError, OSError):
            return DeliveryResult(DeliveryVerdict.AGAIN, "the connection to it failed")

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        self._lookups.close()

    async def _addresses(self, owner: str, target: EgressTarget, *, patience: float | None = None) -> Sequence[Ip]:
        """Raises: DeniedAddress, TooManyLookups, OSError."""
        from fleetwright_a2a.outbound.pinned_http import allowed_addresses

        looking = partial(self._lookups.addresses, owner, patience=patience)
        return await allowed_addresses(self._policy, target, looking)

    async def _opened(self) -> "httpx.AsyncClient":
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client

    def _open(self) -> "httpx.AsyncClient":
        """Build the client. This is slow, because it loads all CA certificates of the system."""
        import httpx

        from fleetwright_a2a.outbound.pinned_http import PinnedTransport

        transport = PinnedTransport(self._policy, resolving=_looked_up)
        return httpx.AsyncClient(transport=transport, timeout=self._seconds, trust_env=False)
