"""The receivers' side of push: whether one may be sent to, and one attempt to send. Nothing of tasks.

A redirect is not followed, for the credentials are meant for the address that was registered; what a receiver answers
is not read beyond its status. Refuses: trying again, which the courier does.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from fleetwright_agent.security.egress import EgressPolicy, Target, UnusableUrl, target_of

if TYPE_CHECKING:
    import httpx

    from fleetwright_agent.security.pinned import Resolve

ATTEMPT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 5.0
_LOOKUPS: Final = 2
_PASSING: Final = frozenset({408, 429})


class Verdict(Enum):
    DELIVERED = "delivered"
    AGAIN = "again"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: Verdict
    reason: str = ""


class Unwelcome(ValueError):  # noqa: N818 - reads as what the address is
    """Nothing is sent to such an address; the text says why, for whoever wrote it."""


def judged(status: int) -> Answer:
    """A refusal stays one however often it is asked for; anything else may pass."""
    if 200 <= status < 300:
        return Answer(Verdict.DELIVERED)
    if 300 <= status < 400:
        return Answer(Verdict.NEVER, "it redirects: register the address that it leads to")
    if 400 <= status < 500 and status not in _PASSING:
        return Answer(Verdict.NEVER, f"it refuses: {status}")
    return Answer(Verdict.AGAIN, f"it answers {status}")


class Receivers:
    def __init__(
        self, policy: EgressPolicy, *, seconds: float = ATTEMPT_SECONDS, resolving: "Resolve | None" = None
    ) -> None:
        self._policy = policy
        self._seconds = seconds
        self._given = resolving
        self._shared: Resolve | None = None
        self._opening = asyncio.Lock()
        self._client: httpx.AsyncClient | None = None

    async def check(self, url: str) -> Target:
        """Raises: Unwelcome."""
        from fleetwright_agent.security.pinned import DeniedAddress, allowed_addresses

        try:
            target = target_of(url)
            async with asyncio.timeout(_LOOK_SECONDS):
                await allowed_addresses(self._policy, target, self._resolving())
        except UnusableUrl as error:
            raise Unwelcome(str(error)) from None
        except (DeniedAddress, OSError):
            # One sentence for what is not known and what is not allowed: names inside are nobody's business.
            raise Unwelcome(
                f"{target.text} does not lead to an address that this agent may send to;"
                " have it named in spec.a2a.push of the Agent"
            ) from None
        return target

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Looked at again, for a name may lead elsewhere since it was registered."""
        import httpx

        from fleetwright_agent.security.pinned import DeniedAddress

        try:
            client = await self._opened()
            async with (
                asyncio.timeout(self._seconds),
                client.stream("POST", url, headers=dict(headers), content=body) as response,
            ):
                return judged(response.status_code)
        except DeniedAddress:
            return Answer(Verdict.NEVER, "its name leads to an address that this agent may not send to")
        except (TimeoutError, httpx.TimeoutException):
            return Answer(Verdict.AGAIN, f"it did not answer within {self._seconds:g} s")
        except httpx.HTTPError:
            return Answer(Verdict.AGAIN, "there is no connection to it")

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _resolving(self) -> "Resolve":
        """One for registering and delivering: callers choose the names, and must not use up what all lookups share."""
        if self._shared is None:
            from fleetwright_agent.security.pinned import resolve, sparing

            self._shared = sparing(self._given or resolve, most=_LOOKUPS)
        return self._shared

    async def _opened(self) -> "httpx.AsyncClient":
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client

    def _open(self) -> "httpx.AsyncClient":
        """Heavy: it reads every authority that the system trusts."""
        import httpx

        from fleetwright_agent.security.pinned import PinnedTransport

        transport = PinnedTransport(self._policy, resolving=self._resolving())
        return httpx.AsyncClient(transport=transport, timeout=self._seconds, trust_env=False)
