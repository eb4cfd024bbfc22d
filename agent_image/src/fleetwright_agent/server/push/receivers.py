"""The receivers' side of push: whether one may be sent to, and one attempt to send. Nothing of tasks.

A redirect is not followed, for the credentials are meant for the address that was registered; what a receiver answers
is not read beyond its status. Refuses: trying again, which the courier does.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from fleetwright_agent.security.addresses import Ip
from fleetwright_agent.security.egress import EgressPolicy, Target, UnusableUrl, target_of
from fleetwright_agent.server.push.name_lookups import Lookups, Resolve

if TYPE_CHECKING:
    import httpx

ATTEMPT_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 5.0
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


_looked_at: ContextVar[Sequence[Ip]] = ContextVar("looked_at")
"""The addresses of the name that is being sent to: whoever connects does so in the task that looked it up."""


async def _looked_up(host: str, port: int) -> Sequence[Ip]:  # noqa: ARG001 - see above
    return _looked_at.get()


class Receivers:
    def __init__(
        self, policy: EgressPolicy, *, seconds: float = ATTEMPT_SECONDS, resolving: Resolve | None = None
    ) -> None:
        self._policy = policy
        self._seconds = seconds
        self._lookups = Lookups(resolving)
        self._opening = asyncio.Lock()
        self._client: httpx.AsyncClient | None = None

    async def check(self, owner: str, url: str) -> Target:
        """Raises: Unwelcome, Crowded."""
        from fleetwright_agent.security.pinned_http import DeniedAddress

        try:
            target = target_of(url)
            await self._addresses(owner, target, patience=_PATIENCE_SECONDS)
        except UnusableUrl as error:
            raise Unwelcome(str(error)) from None
        except (DeniedAddress, OSError):
            # One sentence for what is not known and what is not allowed: names inside are nobody's business.
            raise Unwelcome(
                f"{target.text} does not lead to an address that this agent may send to;"
                " have it named in spec.a2a.push of the Agent"
            ) from None
        return target

    async def post(self, owner: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Looked at again, for a name may lead elsewhere since it was registered.

        The attempt begins with the lookup, and not while it waits for a place.
        """
        import httpx

        from fleetwright_agent.security.pinned_http import DeniedAddress

        try:
            _looked_at.set(await self._addresses(owner, target_of(url)))
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
        except (httpx.HTTPError, OSError):
            return Answer(Verdict.AGAIN, "there is no connection to it")

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        self._lookups.close()

    async def _addresses(self, owner: str, target: Target, *, patience: float | None = None) -> Sequence[Ip]:
        """Raises: DeniedAddress, Crowded, OSError."""
        from fleetwright_agent.security.pinned_http import allowed_addresses

        looking = partial(self._lookups.addresses, owner, patience=patience)
        return await allowed_addresses(self._policy, target, looking)

    async def _opened(self) -> "httpx.AsyncClient":
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client

    def _open(self) -> "httpx.AsyncClient":
        """Heavy: it reads every authority that the system trusts."""
        import httpx

        from fleetwright_agent.security.pinned_http import PinnedTransport

        transport = PinnedTransport(self._policy, resolving=_looked_up)
        return httpx.AsyncClient(transport=transport, timeout=self._seconds, trust_env=False)
