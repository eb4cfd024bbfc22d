"""The agents that this agent may call, as the gateway lists them. The list is read again after a short time."""

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from fleetwright_agent.config.tools import Peer

_USABLE_SECONDS: Final = 300.0
"""The age up to which a list is used while the gateway does not answer."""
_RECENT_SECONDS: Final = 15.0
_WAIT_SECONDS: Final = 3.0
MOST: Final = 200
"""The largest number of agents that are listed."""
_PAGE: Final = 100
_MOST_OF_DESCRIPTION: Final = 300
_log = logging.getLogger(__name__)


class GatewayUnavailable(Exception):  # noqa: N818 - describes the gateway
    """The gateway did not answer with a list; the text says why."""


@dataclass(frozen=True, slots=True)
class Colleague:
    namespace: str
    name: str
    description: str = ""
    phase: str = ""
    outcomes: str = ""
    """How its last tasks ended, as a phrase; empty if nothing is known."""


class Colleagues:
    def __init__(
        self,
        me: str,
        gateway: str,
        client: httpx.AsyncClient,
        *,
        read_token: Callable[[], str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        me: This agent, as `<namespace>/<name>`.
        gateway: The URL of the gateway.
        client: Connects to the gateway. The caller closes it.
        read_token: Returns the current token for the gateway, and raises OSError if there is none.
        monotonic: The clock, in seconds.
        """
        self._me = me
        self._gateway = gateway
        self._client = client
        self._read_token = read_token
        self._monotonic = monotonic
        self._known: tuple[float, tuple[Colleague, ...]] | None = None
        self._failure: tuple[float, str] | None = None
        """The time of the last failure, if the last read failed, and its reason."""

    async def list(self) -> tuple[Colleague, ...]:
        """Return the colleagues in the gateway's order.

        The list may be 15 seconds old, or five minutes while the gateway does not answer.

        Raises:
            GatewayUnavailable: There is no list that is recent enough.
        """
        now = self._monotonic()
        if self._known is not None and now - self._known[0] < _RECENT_SECONDS:
            return self._known[1]
        if self._failure is None or now - self._failure[0] >= _RECENT_SECONDS:
            try:
                found = await self._read()
            except GatewayUnavailable as error:
                _log.warning("the list of colleagues is not current", extra={"why": str(error)})
                self._failure = (now, str(error))
            else:
                self._known, self._failure = (now, found), None
                return found
        # The gateway is asked again later, so that a gateway that does not answer delays only a few turns.
        if self._known is None or now - self._known[0] >= _USABLE_SECONDS:
            raise GatewayUnavailable(self._failure[1])
        return self._known[1]

    def peer(self, text: str) -> Peer | None:
        """Return the way to an agent by `<name>` or `<namespace>/<name>`; None if the text is no such name."""
        space, _, name = text.strip().rpartition("/")
        namespace = space or self._me.partition("/")[0]
        try:
            return Peer(name=name, namespace=namespace, url=f"{self._gateway}/agents/{namespace}/{name}")
        except ValueError:
            return None

    async def _read(self) -> tuple[Colleague, ...]:
        found: list[Colleague] = []
        token: str | None = ""
        try:
            while token is not None and len(found) < MOST:
                page = await self._page(token)
                found += map(_colleague, page["items"])
                token = page.get("nextPageToken")
        except OSError as error:
            raise GatewayUnavailable(f"the token for the gateway cannot be read: {error.strerror}") from None
        except httpx.HTTPError as error:
            raise GatewayUnavailable(f"the gateway is not reachable: {str(error) or type(error).__name__}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise GatewayUnavailable("the gateway sent no list of agents") from None
        return tuple(found[:MOST])

    async def _page(self, token: str) -> Any:
        """Raises: GatewayUnavailable, OSError, httpx.HTTPError or ValueError."""
        url = f"{self._gateway}/v1/agents/{self._me}/peers"
        headers = {"Authorization": f"Bearer {self._read_token()}"}
        params = {"pageSize": str(_PAGE), **({"pageToken": token} if token else {})}
        answer = await self._client.get(url, headers=headers, params=params, timeout=_WAIT_SECONDS)
        if answer.status_code != httpx.codes.OK:
            raise GatewayUnavailable(f"the gateway answered {answer.status_code}")
        return json.loads(answer.content)


def _colleague(document: Any) -> Colleague:
    """Raises: KeyError, TypeError or AttributeError if the document is no agent."""
    about, phase = str(document.get("description") or ""), str(document.get("phase") or "")
    name, outcomes = str(document["name"]), _outcomes(document.get("outcomes") or ())
    return Colleague(str(document["namespace"]), name, about[:_MOST_OF_DESCRIPTION], phase, outcomes)


def _outcomes(found: Iterable[Any]) -> str:
    """Return a phrase for the model, such as `190 of its last 200 tasks succeeded`."""
    counts = [(int(each["tasks"]), int(each["succeeded"])) for each in found]
    tasks, succeeded = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
    return f"{succeeded} of its last {tasks} tasks succeeded" if tasks else ""
