"""Chooses how a request reaches its agent: unchanged, or translated to A2A 1.0.

The gateway itself answers calls for the extended card, and calls in an unknown version.

A message that is not translated also gets its task here, for the delegation. The translator may change the task that a
message names.

The translator is imported when the first request needs it. The dialects and the models of the SDK take about 16 MiB and
half a second, and most gateways never translate.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from fleetwright_a2a.clock import Clock
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.proxy.forwarder import Forwarder, OutboundRequest
from fleetwright_gateway.proxy.message_task import message_task
from fleetwright_gateway.proxy.request_kinds import may_wake, reads_extended_card
from fleetwright_gateway.proxy.translation.selection import is_translated, is_unknown_version, missing_versions

if TYPE_CHECKING:
    from fleetwright_gateway.proxy.translation.translator import Translator

_MODULE: Final = "fleetwright_gateway.proxy.translation.translator"
_ANSWERS: Final = "fleetwright_gateway.proxy.translation.gateway_answers"


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
    def __init__(
        self,
        fleet: Fleet,
        forwarder: Forwarder,
        cards: CardResponses,
        *,
        clock: Clock,
        on_cut: Callable[[], None],
    ) -> None:
        """Args: `on_cut` is called when an agent ends a translated stream early."""
        self._fleet = fleet
        self._cards = cards
        self._forwarder = forwarder
        self._clock = clock
        self._on_cut = on_cut
        self._translator: Translator | None = None

    async def select(self, agent: AgentView, path: str, scope: Scope, body: bytes, *, caller: str) -> Delivery:
        """Return how to deliver a request. Args: `caller` is the caller as the agent sees it."""
        card = self._fleet.card_of(agent)
        verb = scope["method"]
        missing = missing_versions(card)
        version = Headers(scope=scope).get("a2a-version", "") if missing else ""
        if not is_translated(missing, verb=verb, path=path, version=version, body=body):
            return Delivery(self._forwarder.forward, message_task(verb, path, body))
        translator = await self._loaded()

        async def translated(
            request: OutboundRequest, receive: Receive, send: Send, *, extra: Sequence[tuple[bytes, bytes]]
        ) -> None:
            await translator.forward(
                request, scope, receive, send, caller=caller, agent=agent.uid, card=card or {}, extra=extra
            )

        return Delivery(translated, None)

    async def answer_for_agent(
        self, agent: AgentView, path: str, scope: Scope, body: bytes, send: Send, *, caller: str
    ) -> bool:
        """Answer a call that the gateway answers in place of the agent. The agent is not woken.

        These are calls for the extended card, and calls in a version of A2A that neither the gateway nor the agent
        knows.

        Args:
            agent: The called agent.
            path: The path at the agent.
            scope: The scope of the request.
            body: The body of the request.
            send: Sends the response.
            caller: The caller as the agent sees it.

        Returns:
            False if the request is no such call. Nothing was sent then.

        Raises:
            Refused: The operator has not written the extended card yet.
        """
        headers, verb, card = Headers(scope=scope), scope["method"], self._fleet.card_of(agent)
        reads_card = reads_extended_card(verb, path, body)
        is_unknown = is_unknown_version(card, headers.get("a2a-version", ""))
        if not reads_card and not (is_unknown and may_wake(verb, path, body)):
            return False
        extended = self._cards.extended_text(agent, headers)
        if reads_card and not is_unknown and extended is None and (card is None or _has_extended_card(card)):
            raise Refused(503, "The extended card of this agent is not known yet.", {"Retry-After": "5"})
        answers = await asyncio.to_thread(importlib.import_module, _ANSWERS)
        await answers.answer_call(scope, body, send, caller=caller, extended_card=extended)
        return True

    async def _loaded(self) -> "Translator":
        if self._translator is None:
            # The import runs in a thread, so that other requests continue.
            module = await asyncio.to_thread(importlib.import_module, _MODULE)
            self._translator = module.Translator(self._forwarder, clock=self._clock, on_cut=self._on_cut)
        return self._translator


def _has_extended_card(card: Mapping[str, object]) -> bool:
    capabilities = card.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("extendedAgentCard") is True
