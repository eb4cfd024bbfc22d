"""Chooses how a request reaches its agent: unchanged, or translated to A2A 1.0.

A message that is not translated also gets its task here, for the delegation. The translator may change the task that a
message names.

The translator is imported when the first request needs it. The dialects and the models of the SDK take about 16 MiB and
half a second, and most gateways never translate.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from fleetwright_a2a.clock import Clock
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.proxy.forwarder import Forwarder, OutboundRequest
from fleetwright_gateway.proxy.message_task import message_task
from fleetwright_gateway.proxy.translation.selection import is_translated, missing_versions

if TYPE_CHECKING:
    from fleetwright_gateway.proxy.translation.translator import Translator

_MODULE: Final = "fleetwright_gateway.proxy.translation.translator"


class Deliver(Protocol):
    """Sends a request to a pod, and the response to the caller. Raises: NotAccepted, ProxyError, ResponseAborted."""

    def __call__(
        self, request: OutboundRequest, receive: Receive, send: Send, *, extra: Sequence[tuple[bytes, bytes]]
    ) -> Awaitable[object]: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    deliver: Deliver
    task_id: str | None
    """The task that the message names; empty if it names none. None if the request needs no delegation from the proxy:
    it sends no message, or the translator chooses the task.
    """


class DeliverySelector:
    def __init__(self, fleet: Fleet, forwarder: Forwarder, *, clock: Clock, on_cut: Callable[[], None]) -> None:
        """Args: `on_cut` is called when an agent ends a translated stream early."""
        self._fleet = fleet
        self._forwarder = forwarder
        self._clock = clock
        self._on_cut = on_cut
        self._translator: Translator | None = None

    async def select(self, agent: AgentView, path: str, scope: Scope, body: bytes, *, caller: str) -> Delivery:
        """Return how to deliver a request. Args: `caller` is the caller as the agent sees it."""
        card = self._fleet.card_of(agent)
        missing = missing_versions(card)
        version = Headers(scope=scope).get("a2a-version", "") if missing else ""
        if not is_translated(missing, verb=scope["method"], path=path, version=version, body=body):
            return Delivery(self._forwarder.forward, message_task(scope["method"], path, body))
        translator = await self._loaded()

        async def translated(
            request: OutboundRequest, receive: Receive, send: Send, *, extra: Sequence[tuple[bytes, bytes]]
        ) -> None:
            await translator.forward(
                request, scope, receive, send, caller=caller, agent=agent.uid, card=card or {}, extra=extra
            )

        return Delivery(translated, None)

    async def _loaded(self) -> "Translator":
        if self._translator is None:
            # The import runs in a thread, so that other requests continue.
            module = await asyncio.to_thread(importlib.import_module, _MODULE)
            self._translator = module.Translator(self._forwarder, clock=self._clock, on_cut=self._on_cut)
        return self._translator
